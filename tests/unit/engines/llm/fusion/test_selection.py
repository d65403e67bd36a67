import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.llm.fusion.prompt_layout import ChunkSpan
from heddle.engines.llm.fusion.selection import NONE, budget_of, highest, positions_of


def spans(lengths, start=5, gap=0):
    found = []
    for length in lengths:
        found.append(ChunkSpan(start, start + length, tuple(range(length))))
        start += length + gap
    return found


def test_the_highest_scores_of_all_chunks_win():
    chunks = spans([3, 2], gap=10)
    scores = np.array([0.1, 0.9, 0.2, 0.5, 0.3], np.float32)

    assert highest(positions_of(chunks), scores, budget_of(chunks, 0.4)).tolist() == [6, 18]


def test_equal_scores_select_the_earlier_position():
    assert highest(positions_of(spans([4])), np.ones(4, np.float32), 2).tolist() == [5, 6]


def test_no_chunk_selects_nothing():
    assert positions_of([]).size == 0
    assert highest(NONE, np.empty(0, np.float32), 3).size == 0


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.floats(0, 1),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_a_selection_keeps_its_budget_and_holds_the_best(lengths, ratio, gap, seed):
    chunks = spans(lengths, gap=gap)
    positions = positions_of(chunks)
    scores = np.random.default_rng(seed).random(len(positions), dtype=np.float32)

    chosen = highest(positions, scores, budget_of(chunks, ratio))

    of = dict(zip(positions.tolist(), scores.tolist(), strict=True))
    assert chosen.size == budget_of(chunks, ratio)
    assert np.all(np.diff(chosen) > 0)
    left = [score for position, score in of.items() if position not in set(chosen.tolist())]
    assert not left or not chosen.size or max(left) <= min(of[p] for p in chosen.tolist())
