import math
from dataclasses import replace

import numpy as np
import pytest

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.kv_reuse import AUTO, KvReuse, ReusePolicy
from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, ReusedChunk, ScoredAhead
from heddle.engines.llm.fusion.prompt_layout import ChunkSpan, PromptLayout
from heddle.engines.llm.fusion.ratio_choice import RatioChoice, chosen_ratio
from heddle.kv.chunk_key import HitKind
from heddle.kv.chunk_record import ChunkRecord

COSTS = CostSnapshot(
    "llm", 1, {"call": 0.1, "prefill_tokens": 0.009, "checked_tokens": 0.001, "context_tokens": 0.0}
)
STEP_TOKENS = 100  # so a token takes 10 ms, calls included


def prompt_of(policy=ReusePolicy.EPIC, ratio=AUTO):
    """A prefix of 10 tokens, chunks of 200 and 100, a question of 20; all chunks are stored."""
    spans = (ChunkSpan(10, 210, (0,) * 200), ChunkSpan(210, 310, (0,) * 100))
    record = ChunkRecord(b"k", b"c", 1, 0)
    reused = {i: ReusedChunk(s, record, HitKind.ALIAS, False, 1) for i, s in enumerate(spans)}
    layout = PromptLayout(10, spans, 310, 330)
    return FusedPrompt(layout, KvReuse(policy, ratio), reused, 10)


def choice_of(prompt, left_s=math.inf):
    return chosen_ratio(prompt, left_s, COSTS, STEP_TOKENS)


def ratio_in(left_s, policy=ReusePolicy.EPIC):
    return choice_of(prompt_of(policy), left_s).ratio


def test_a_fixed_ratio_stays():
    assert choice_of(prompt_of(ratio=0.4), 0.0) == RatioChoice(0.4)


@pytest.mark.parametrize(("asked", "ratio"), [(0.15, 0.0), (AUTO, 0.0), (1.0, 1.0)])
def test_full_reuse_computes_no_share_but_all(asked, ratio):
    assert choice_of(prompt_of(ReusePolicy.FULL_REUSE, asked)).ratio == ratio


def test_without_a_deadline_it_is_the_default():
    assert ratio_in(math.inf) == KvReuse().ratio


@pytest.mark.parametrize(
    ("left_s", "ratio"), [(3.3, 1.0), (3.1, 0.5), (0.7, 0.15), (0.3, 0.0), (-1.0, 0.0)]
)
def test_the_question_comes_first_and_the_rest_of_the_time_goes_to_chunks(left_s, ratio):
    assert ratio_in(left_s) == ratio  # 0.2 s for the question, 3 s for all chunks


def test_finding_out_which_tokens_matter_takes_time_too():
    assert ratio_in(3.3, ReusePolicy.FUSIONRAG) == 0.5  # the question once more: 0.2 s
    assert ratio_in(3.45, ReusePolicy.FUSIONRAG) == 1.0
    assert ratio_in(3.45, ReusePolicy.CACHEBLEND) == 0.5  # the first layers: 0.32 s
    assert ratio_in(3.6, ReusePolicy.CACHEBLEND) == 1.0


@pytest.mark.parametrize(("question_tokens", "ratio"), [(239, 0.2), (240, 1.0), (500, 1.0)])
def test_a_question_that_selects_no_faster_than_all_is_computed_selects_nothing(
    question_tokens, ratio
):
    prompt = prompt_of(ReusePolicy.FUSIONRAG, 0.2)  # 240 of 300 tokens to be saved
    prompt = replace(prompt, layout=replace(prompt.layout, tokens=310 + question_tokens))
    choice = choice_of(prompt)
    assert choice.ratio == ratio
    assert ("computed whole" in choice.note) == (ratio == 1.0)
    by_epic = replace(prompt, options=KvReuse(ReusePolicy.EPIC, 0.2))
    assert choice_of(by_epic) == RatioChoice(0.2)
    unasked = replace(prompt, options=KvReuse(ReusePolicy.FUSIONRAG, 0.0))
    assert choice_of(unasked) == RatioChoice(0.0)
    scores = {10: np.ones(200, np.float32), 210: np.ones(100, np.float32)}
    ran_ahead = replace(prompt, ahead=ScoredAhead(scores))
    assert choice_of(ran_ahead) == RatioChoice(0.2)


def test_a_ratio_that_was_left_to_the_deadline_gets_the_note_too():
    """Only where the rule has changed it: a deadline that leaves time for all needs no excuse."""
    prompt = prompt_of(ReusePolicy.FUSIONRAG)
    long = replace(prompt, layout=replace(prompt.layout, tokens=310 + 300))
    choice = choice_of(long)
    assert choice.ratio == 1.0
    assert "its question of 300 tokens would have taken as long to select the 15%" in choice.note
    assert choice_of(prompt, 1e6) == RatioChoice(1.0)


def test_a_question_that_was_run_ahead_takes_no_more_time():
    scores = {10: np.ones(200, np.float32), 210: np.ones(100, np.float32)}
    prompt = replace(prompt_of(ReusePolicy.FUSIONRAG), ahead=ScoredAhead(scores))
    assert choice_of(prompt, 3.3).ratio == 1.0
