"""The best span, against trying all of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.reading.spans import Finding, best_spans
from heddle.engines.reading.windows import Window


def window(first: int, count: int, after: int = 1) -> Window:
    return Window(
        tuple(range(first + count + after)), 1, first, tuple((i, i + 1) for i in range(count))
    )


def tried(logits: np.ndarray, row: Window, span_max: int) -> Finding:
    """Try each span; the earliest start wins among equals, then the shortest."""
    found = Finding(-np.inf)
    for i in range(len(row.offsets)):
        for j in range(i, min(i + span_max, len(row.offsets))):
            start, end = logits[row.first + i, 0], logits[row.first + j, 1]
            score = float(start + end + logits[0, 2])
            if score > found.score:
                found = Finding(score, i, j)
    return found


shapes = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 30)), min_size=1, max_size=5)


@given(shapes, st.integers(1, 22), st.integers(0, 2**32 - 1), st.booleans())
def test_spans_equal_those_found_by_trying_all(
    shape: list[tuple[int, int]], span_max: int, seed: int, has_ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    windows = [window(first, count) for first, count in shape]
    lengths = [len(row.ids) for row in windows]
    logits = rng.normal(size=(sum(lengths), 3)).astype(np.float32)
    if has_ties:
        logits = np.round(logits)
    found = best_spans(logits, windows, span_max)
    parts = np.split(logits, np.cumsum(lengths)[:-1])
    assert found == [tried(part, row, span_max) for part, row in zip(parts, windows, strict=True)]


def test_no_span_crosses_from_one_window_to_the_next() -> None:
    windows = [window(1, 2), window(1, 2)]
    logits = np.zeros((8, 3), np.float32)
    logits[2, 0] = 9  # the first window's last token begins well
    logits[5, 1] = 9  # the second window's first token ends well
    first, second = best_spans(logits, windows, 20)
    assert first == Finding(9.0, 1, 1)
    assert second == Finding(9.0, 0, 0)


def test_a_broken_number_is_handed_on() -> None:
    [found] = best_spans(np.full((3, 3), np.nan, np.float32), [window(1, 1)], 20)
    assert np.isnan(found.score)
