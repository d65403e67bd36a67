"""The latest start that keeps every deadline, against trying out every start."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.engines.vector.pool.lookahead import CAUTION, ROUNDS_MAX, latest_start_s
from heddle.engines.vector.pool.requests import PoolRequest, Stage

ALONE_S = 1.0 / CAUTION  # so that a search is counted as 1 s


def prefill(task_id, deadline_s):
    return PoolRequest(task_id, Stage.PREFILL, 0.0, deadline_s, ALONE_S)


def all_in_time(start_s, deadlines_s, taken_until_s, slots):
    """Whether each search ends in time if none starts before `start_s`."""
    free_s = [max(start_s, until_s) for until_s in taken_until_s]
    free_s += [start_s] * (slots - len(free_s))
    for deadline_s in sorted(deadlines_s):
        first = min(range(slots), key=free_s.__getitem__)
        free_s[first] += 1.0
        if free_s[first] > deadline_s + 1e-9:
            return False
    return True


def latest(deadlines_s, taken_until_s=(), slots=2, now_s=0.0):
    waiting = [prefill(i, deadline_s) for i, deadline_s in enumerate(deadlines_s)]
    return latest_start_s(now_s, waiting, taken_until_s, slots)


@settings(max_examples=200)
@given(
    deadlines_s=st.lists(st.integers(1, 24).map(lambda i: i / 2), max_size=10),
    taken_until_s=st.lists(st.integers(0, 8).map(lambda i: i / 4), max_size=3),
)
def test_all_end_in_time_that_start_by_then(deadlines_s, taken_until_s):
    found_s = latest(deadlines_s, taken_until_s, slots=3)
    can_be_kept = all_in_time(0.0, deadlines_s, taken_until_s, 3)
    if can_be_kept and deadlines_s:
        assert found_s >= 0
        assert all_in_time(found_s, deadlines_s, taken_until_s, 3)
    if not taken_until_s and deadlines_s:
        assert (found_s >= 0) == can_be_kept
        assert not all_in_time(max(found_s, 0.0) + 0.01, deadlines_s, taken_until_s, 3)


def test_those_in_front_are_counted():
    assert latest([5.0], slots=1) == pytest.approx(4.0)
    assert latest([5.0, 5.5], slots=1) == pytest.approx(3.5)


def test_a_search_behind_a_running_one_is_not_delayed_before_that_ends():
    assert latest([5.0], taken_until_s=[3.0], slots=1) == pytest.approx(4.0)


def test_nobody_waits_for_ever_and_nobody_for_nothing():
    assert latest([]) == math.inf
    assert latest([math.inf]) == math.inf


def test_only_the_first_rounds_are_looked_at():
    fits = [float(ROUNDS_MAX)] * ROUNDS_MAX
    assert latest([*fits, float(ROUNDS_MAX)], slots=1) == pytest.approx(0.0)
