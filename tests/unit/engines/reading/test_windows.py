"""Windows hold the whole question and all of the passage, in rows that the model takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.engines.reading.windows import (
    PairMarks,
    TokenizedPassage,
    WindowSizes,
    cut,
)

CLS, SEP, STOP = 101, 102, 1012
MARKS = PairMarks((CLS,), (SEP,), (SEP,), (STOP,), 1)


def passage(tokens: int, title: int = 0) -> TokenizedPassage:
    offsets = tuple((3 * i, 3 * i + 2) for i in range(tokens))
    return TokenizedPassage(
        tuple(range(500, 500 + title)), tuple(range(1000, 1000 + tokens)), offsets
    )


def test_a_short_passage_is_one_row() -> None:
    [window] = cut(MARKS, WindowSizes(), (7, 8), passage(2, title=1)).windows
    assert window.ids == (CLS, 7, 8, SEP, 500, STOP, 1000, 1001, SEP)
    assert (window.second, window.first) == (4, 6)
    assert window.offsets == ((0, 2), (3, 5))


def test_without_a_title_there_is_no_stop() -> None:
    [window] = cut(MARKS, WindowSizes(), (7,), passage(1)).windows
    assert window.ids == (CLS, 7, SEP, 1000, SEP)


def test_question_and_title_are_cut_to_their_lengths() -> None:
    done = cut(MARKS, WindowSizes(), tuple(range(200, 300)), passage(5, title=60))
    [window] = done.windows
    assert window.ids[1:65] == tuple(range(200, 264))
    assert window.ids[66:90] == tuple(range(500, 524))
    assert not done.is_truncated


@given(st.integers(1, 3000), st.integers(1, 80), st.integers(0, 40))
def test_windows_share_the_overlap_and_leave_nothing_out(
    tokens: int, question: int, title: int
) -> None:
    sizes = WindowSizes()
    windows = cut(MARKS, sizes, tuple(range(200, 200 + question)), passage(tokens, title)).windows
    bodies = [window.ids[window.first : -1] for window in windows]
    assert all(len(window.ids) <= sizes.window_max for window in windows)
    assert all(len(w.offsets) == len(b) > 0 for w, b in zip(windows, bodies, strict=True))
    joined = list(bodies[0])
    for body in bodies[1:]:
        assert tuple(joined[-sizes.overlap :]) == tuple(body[: sizes.overlap])
        joined += body[sizes.overlap :]
    assert joined == list(range(1000, 1000 + tokens))


def test_a_model_without_windows_reads_the_beginning_and_says_so() -> None:
    sizes = WindowSizes(window_max=160, is_windowed=False)
    done = cut(MARKS, sizes, (7,), passage(1000))
    assert len(done.windows) == 1
    assert len(done.windows[0].ids) == 160
    assert done.is_truncated


@pytest.mark.parametrize("field", ["window_max", "question_max", "title_max", "span_max"])
def test_sizes_are_positive(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        WindowSizes(**{field: 0})
    with pytest.raises(ConfigError, match="overlap"):
        WindowSizes(overlap=-1)
