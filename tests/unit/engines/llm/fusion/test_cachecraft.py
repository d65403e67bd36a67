"""Cache-Craft's arithmetic: which part of a chunk's old context is missing, and its weight."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.engines.llm.fusion.attention_log import AttentionLog
from heddle.engines.llm.fusion.cachecraft import (
    cachecraft,
    cachecraft_fixed,
    discordance,
    overlap,
)
from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, ReusedChunk
from heddle.engines.llm.fusion.prompt_layout import ChunkSpan, PromptLayout
from heddle.kv.chunk_attention import ChunkAttention
from heddle.kv.chunk_key import HitKind
from heddle.kv.chunk_record import ChunkRecord

A, B, C, D = (letter.encode() * 32 for letter in "ABCD")
ORDERS = st.lists(st.sampled_from([A, B, C, D]), unique=True)


@pytest.mark.parametrize(
    ("old", "new", "share"),
    [
        ([A, B], [A, B], 0.0),
        ([A, B], [B, A], 1.0),
        ([A, B, C], [A, C, B], 1 / 3),
        ([A, B, C], [C, D, A], 1.0),
        ([A, B], [D, A], 0.0),
        ([], [A], 0.0),
        ([A, A, B], [A, B], 0.0),  # a chunk that stood twice counts where it stood first
    ],
)
def test_discordance_is_the_share_of_pairs_turned_round(old, new, share):
    assert discordance(old, new) == pytest.approx(share)


@given(ORDERS, ORDERS)
def test_discordance_knows_no_direction(old, new):
    assert discordance(old, new) == pytest.approx(discordance(new, old))
    assert 0.0 <= discordance(old, new) <= 1.0


@pytest.mark.parametrize(
    ("new", "share"), [([A, B], 1.0), ([A], 0.25), ([D, B], 0.75), ([D], 0.0), ([B, A], 0.0)]
)
def test_overlap_weighs_chunks_by_the_attention_they_got(new, share):
    assert overlap([1.0, 3.0], [A, B], new) == pytest.approx(share)


def test_without_old_context_nothing_is_there_again():
    assert overlap([], [], [A]) == 0.0
    assert overlap([0.0], [A], [A]) == 0.0


def reused(start, weights, *, impact, inter=(), context=(), before=(), known=True):
    """Return a chunk of len(weights) tokens whose two sorts of weights are mirrored."""
    weights = np.asarray(weights, np.float32)
    attention = ChunkAttention(impact, np.asarray(inter, np.float32), weights, weights[::-1])
    record = ChunkRecord(
        A, A, len(weights), 0, context=tuple(context), attention=attention if known else None
    )
    span = ChunkSpan(start, start + len(weights), tuple(range(len(weights))))
    return ReusedChunk(span, record, HitKind.ALIAS, False, object(), tuple(before))


def prompt_of(*chunks, policy=ReusePolicy.CACHECRAFT):
    spans = tuple(chunk.span for chunk in chunks)
    layout = PromptLayout(spans[0].start, spans, spans[-1].stop, spans[-1].stop + 3)
    return FusedPrompt(layout, KvReuse(policy), dict(enumerate(chunks)), spans[0].start)


def selected_by(policy, prompt, ratio):
    (only,) = policy(prompt, ratio)
    return sorted(set(only.positions.tolist()) - set(prompt.uncovered.tolist()))


def test_each_chunk_gives_the_share_that_its_cfo_says():
    weights = [0.1, 0.9, 0.3, 0.7]
    prompt = prompt_of(
        reused(2, weights, impact=0.8),
        reused(6, weights, impact=0.8, inter=[1, 3], context=[B, C], before=[A, C]),
    )
    # ceil(0.5 * 0.8 * 4) = 2; ceil(0.5 * 0.8 * (1 - 3/4) * 4) = 1
    assert selected_by(cachecraft, prompt, 0.5) == [3, 5, 7]
    assert selected_by(cachecraft, prompt, 0.0) == []


def test_the_fixed_form_takes_one_share_of_all_by_the_last_layer():
    prompt = prompt_of(
        reused(2, [0.1, 0.9, 0.3, 0.7], impact=0.5), reused(6, [0.2, 0.2, 0.2, 0.8], impact=0.9)
    )
    assert selected_by(cachecraft_fixed, prompt, 0.4) == [2, 4, 6]


def test_chunks_without_attention_give_their_first_tokens():
    prompt = prompt_of(
        reused(2, [0.1, 0.9, 0.3, 0.7], impact=0.5, known=False),
        reused(6, [0.2, 0.1, 0.2, 0.8], impact=0.5),
    )
    assert selected_by(cachecraft, prompt, 0.5) == [2, 3, 9]
    assert selected_by(cachecraft_fixed, prompt, 0.5) == [2, 3, 6, 7]


def layout_of_two():
    first, second = ChunkSpan(2, 4, (1, 2)), ChunkSpan(4, 7, (3, 4, 5))
    return PromptLayout(2, (first, second), 7, 9)


def test_the_log_keeps_what_a_chunk_looked_at():
    log = AttentionLog(layout_of_two(), [4])
    assert log.spans == ((0, 2), (2, 4), (4, 7))
    assert not log.wants(np.arange(2, 4))
    assert not log.wants(np.arange(7, 30))
    means = np.array([[0.5, 0.3, 0.2], [0.4, 0.2, 0.4], [0.1, 0.1, 0.8]], np.float32)
    for place in (6, 4, 5):  # in slices, in any order
        assert log.wants(np.arange(place, place + 1))
        row = means[place - 4 : place - 3]
        log.take(np.arange(place, place + 1), (row, row[:, ::-1]))
    kept = log.of_chunk_at(4)
    assert kept.inter == pytest.approx([0.6])
    assert kept.weights == pytest.approx([0.8, 0.6, 0.2])
    assert kept.last_weights == pytest.approx([0.5, 0.6, 0.9])
    inter = 1.0 / (3 * 2) + 0.6 / (3 * 2)
    intra = 1.4 / 9
    assert kept.impact == pytest.approx(1 / (1 + math.exp(-inter / intra)))


def test_a_chunk_that_was_not_computed_whole_has_no_attention():
    log = AttentionLog(layout_of_two(), [4])
    row = np.full((2, 3), 0.1, np.float32)
    log.take(np.arange(4, 6), (row, row))
    assert log.of_chunk_at(4) is None


def test_positions_behind_the_prompt_are_ignored():
    log = AttentionLog(layout_of_two(), [4])
    row = np.full((8, 3), 0.1, np.float32)
    log.take(np.arange(4, 12), (row, row))
    assert log.of_chunk_at(4) is not None
