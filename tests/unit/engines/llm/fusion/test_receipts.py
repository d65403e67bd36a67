"""What the receipt says: the ratio that was chosen, and why nothing was reused."""

from dataclasses import replace

import pytest

from heddle.core.kv_reuse import AUTO, KvReuse, PrimedWith, ReusePolicy
from heddle.core.results import FusedKv
from heddle.engines.llm.fusion.fused_prompt import ReusedChunk
from heddle.kv.chunk_key import HitKind
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.three_chunks import CHUNKS, PREFIX, ThreeChunks, rel_diff, served
from tests.helpers.tiny_models import prompt, tiny_model

CHOSEN = KvReuse(ReusePolicy.FUSIONRAG, AUTO)


@pytest.fixture(scope="module")
def case():
    return ThreeChunks(tiny_model("llama"))


def last_fused(serving):
    return next(reversed(serving.prefilled.values())).fused


@pytest.mark.parametrize(("seconds_left", "ratio"), [(float("inf"), 0.15), (-1.0, 0.0), (1e6, 1.0)])
def test_the_ratio_follows_the_deadline(case, seconds_left, ratio):
    serving = served(case.model)
    serving.seconds_left = seconds_left
    logits = serving.ask(case.segments, CHOSEN)
    fused = last_fused(serving)
    assert fused.ratio == ratio
    assert fused.tokens_recomputed == int(ratio * len(case.candidates))
    expected = serving.ask(case.segments, KvReuse(ReusePolicy.FUSIONRAG, ratio))
    assert rel_diff(logits, expected) < 5e-6


def test_an_answer_takes_its_share_of_the_time(case):
    """However long the deadline, an answer that may be longer leaves none for chunks."""
    serving = served(case.model)
    serving.seconds_left = 1e6
    token_s = serving.last.costs.coefficients_s["call"]
    serving.ask(case.segments, CHOSEN, new_tokens=1)
    assert last_fused(serving).ratio == 1.0
    serving.seconds_left = 40 * token_s
    number = serving.start(case.segments, CHOSEN, 500)
    serving.drain()
    assert serving.prefilled[number].fused.ratio == 0.0


@pytest.mark.parametrize("ratio", [0.15, AUTO])
def test_a_question_longer_than_what_it_would_save_is_told(case, ratio):
    serving = served(case.model)
    asked = KvReuse(ReusePolicy.FUSIONRAG, ratio)
    long = segments(PREFIX, CHUNKS, prompt(sum(map(len, CHUNKS)), 7))
    logits = serving.ask(long, asked)
    fused = last_fused(serving)
    assert (fused.ratio, fused.tokens_surveyed) == (1.0, 0)
    [said] = fused.notes
    assert "computed whole" in said
    assert rel_diff(logits, serving.ask(long, KvReuse())) < 5e-6
    serving.ask(case.segments, asked)
    assert last_fused(serving).notes == ()


def test_what_lay_in_the_pool_already_is_told(case):
    """The first prompt brings the chunks in; those after it, in another order, find them there."""
    serving = served(case.model)
    chunks, reuse = CHUNKS[::-1], KvReuse(ReusePolicy.FULL_REUSE)
    serving.ask(segments(PREFIX, [*chunks, chunks[0]], prompt(9, 9)), reuse)
    assert last_fused(serving).tokens_from_device == 0
    serving.ask(segments(PREFIX, [chunks[1], chunks[0]], prompt(9, 8)), reuse)
    assert last_fused(serving).tokens_from_device == len(chunks[0]) + len(chunks[1])
    serving.ask(segments(PREFIX, chunks, prompt(9, 7)), KvReuse(ReusePolicy.CACHEBLEND, 0.3))
    assert last_fused(serving).tokens_from_device == 0, "it reads copies, from host memory"


def test_a_prompt_that_lost_its_pages_did_not_find_them(case):
    serving = served(case.model, step_tokens=16)
    number = serving.start(segments(PREFIX, CHUNKS[::-1], prompt(40, 9)), new_tokens=3)
    serving.step()
    scheduler = serving.engine.scheduler
    scheduler.preempt(serving.engine.sequences.get(number))
    assert len(scheduler.kv_cache.chunk_pages) == len(CHUNKS)
    serving.drain()
    assert serving.prefilled[number].preemptions == 1
    assert serving.prefilled[number].fused.tokens_from_device == 0


def test_what_was_loaded_from_disk_is_not_counted_for_the_pool():
    chunk = ReusedChunk(None, None, HitKind.ALIAS, from_disk=True, block=1, was_in_pool=True)
    assert not chunk.is_from_device
    assert replace(chunk, from_disk=False).is_from_device


def test_the_time_is_told_by_part(case):
    serving = served(case.model)
    for reuse, chooses in ((CHOSEN, True), (KvReuse(ReusePolicy.EPIC, 0.3), False)):
        serving.ask(case.segments, reuse)
        fused = last_fused(serving)
        assert fused.computing_s > 0.0
        assert (fused.surveying_s > 0.0) == (fused.tokens_surveyed > 0) == chooses
        assert fused.loading_s == 0.0, "all chunks were in memory"


def test_chunks_that_nobody_has_stored_are_all_missed(case):
    serving = FusedServing(case.model)
    serving.ask(case.segments, CHOSEN)
    misses = {"miss": len(CHUNKS)}
    assert last_fused(serving) == FusedKv(
        "fusionrag", 0.0, misses, primed_with=PrimedWith.PRECEDING
    )
    serving.ask(case.segments, KvReuse())
    assert last_fused(serving) is None


def test_an_engine_that_can_reuse_nothing_says_why(case):
    serving = FusedServing(case.model, reuse_problem="its keys can't be turned")
    serving.ask(case.segments, CHOSEN)
    assert last_fused(serving) == FusedKv(
        "full", 1.0, {}, notes=("fusionrag reused nothing: its keys can't be turned",)
    )
    serving.ask(case.segments, KvReuse())
    assert last_fused(serving) is None
