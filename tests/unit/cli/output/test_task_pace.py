"""Plain lines of progress: how many there are, and what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.cli.output.task_pace import LINE_EVERY_S, LINES_MAX, TaskPace, duration


def test_a_line_has_the_rate_and_the_time_left():
    pace = TaskPace(0, 100.0)
    assert pace.is_due(0, 200, 100.0)
    assert pace.words(0, 200, 100.0) == ""
    assert pace.is_due(20, 200, 108.0), "the models were loaded before these"
    assert pace.words(20, 200, 108.0) == ""
    assert pace.is_due(60, 200, 116.0)
    assert pace.words(60, 200, 116.0) == "5.0/s, about 28 s left"
    assert pace.words(200, 200, 144.0) == "took 44 s"


def test_units_that_end_together_say_little_of_the_rate():
    pace = TaskPace(0, 0.0)
    assert pace.is_due(64, 800, 40.0)
    assert pace.words(256, 800, 42.0) == "6.1/s, about 89 s left"
    assert pace.words(384, 800, 80.0) == "8.0/s, about 52 s left"


def test_what_was_done_before_is_no_part_of_the_rate():
    pace = TaskPace(900, 0.0)
    pace.is_due(910, 1000, 10.0)
    assert pace.words(950, 1000, 50.0) == "1.0/s, about 50 s left"


def test_a_slow_task_is_heard_of_at_intervals():
    pace = TaskPace(0, 0.0)
    due = [now_s for now_s in range(1000) if pace.is_due(now_s, 100_000, float(now_s))]
    assert due == list(range(0, 1000, int(LINE_EVERY_S)))


@given(
    st.integers(1, 500),
    st.lists(st.tuples(st.integers(0, 9), st.floats(0.0, 30.0)), max_size=300),
)
def test_the_lines_of_a_task_are_bounded(total: int, steps: list[tuple[int, float]]):
    pace, done, now_s, lines = TaskPace(0, 0.0), 0, 0.0, 0
    for more, seconds in steps:
        done, now_s = min(total, done + more), now_s + seconds
        lines += pace.is_due(done, total, now_s)
    assert lines <= LINES_MAX + 2 + now_s / LINE_EVERY_S


def test_the_last_unit_is_always_shown():
    pace = TaskPace(0, 0.0)
    assert [pace.is_due(done, 3, 0.01 * done) for done in range(4)] == [True, False, False, True]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (99.0, "99 s"), (150.0, "2 min"), (4800.0, "1 h 20 min")]
)
def test_a_duration_has_the_right_unit(seconds: float, words: str):
    assert duration(seconds) == words
