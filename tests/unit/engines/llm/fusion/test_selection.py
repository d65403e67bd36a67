import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.llm.fusion.prompt_layout import ChunkSpan
from heddle.engines.llm.fusion.selection import budget_of, highest, leading


def _chunks(lengths, start=5, gap=0):
    chunks = []
    for length in lengths:
        chunks.append(ChunkSpan(start, start + length, tuple(range(length))))
        start += length + gap
    return chunks


def _scores(chunks, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.random(chunk.tokens, dtype=np.float32) for chunk in chunks]


def test_the_highest_scores_of_all_chunks_win():
    chunks = _chunks([3, 2], gap=10)
    scores = [np.array([0.1, 0.9, 0.2], np.float32), np.array([0.5, 0.3], np.float32)]

    assert highest(chunks, scores, 0.4).tolist() == [6, 18]


def test_equal_scores_select_the_earlier_position():
    chunks = _chunks([4])

    assert highest(chunks, [np.ones(4, np.float32)], 0.5).tolist() == [5, 6]


def test_leading_tokens_are_taken_from_each_chunk():
    assert leading(_chunks([10, 4], gap=1), 0.5).tolist() == [5, 6, 7, 8, 9, 16, 17]


def test_no_chunk_selects_nothing():
    assert highest([], [], 0.5).size == 0
    assert leading([], 0.5).size == 0


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.floats(0, 1),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_a_selection_keeps_its_budget_and_holds_the_best(lengths, ratio, gap, seed):
    chunks = _chunks(lengths, gap=gap)
    scores = _scores(chunks, seed)

    chosen = highest(chunks, scores, ratio)

    of = {c.start + i: s[i] for c, s in zip(chunks, scores, strict=True) for i in range(c.tokens)}
    assert chosen.size == budget_of(chunks, ratio)
    assert np.all(np.diff(chosen) > 0)
    left = [score for position, score in of.items() if position not in set(chosen.tolist())]
    assert not left or not chosen.size or max(left) <= min(of[p] for p in chosen.tolist())
    assert set(leading(chunks, ratio).tolist()) <= set(of)
