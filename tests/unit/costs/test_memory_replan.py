"""When another split of the memory is advised: for a lasting and notable gain."""

import math

import pytest

from heddle.costs.memory_replan import (
    GAIN_KEPT,
    GAIN_MIN,
    HOLD_S,
    Replan,
    ReplanState,
    find_replan,
    review,
)
from heddle.costs.memory_split import (
    Bound,
    MeasuredCurves,
    MemorySplit,
    RatePoint,
    StageMix,
    split_memory,
)


def rising_to(most: float) -> tuple[RatePoint, ...]:
    return (RatePoint(most, most), RatePoint(2 * most, most))


CURVES = MeasuredCurves(
    {100: rising_to(2.0), 200: rising_to(4.0), 400: rising_to(8.0)}, rising_to(6.0)
)
SEARCHING, WRITING = StageMix(1.0, 3.0), StageMix(3.0, 1.0)
PLANNED = split_memory(CURVES, SEARCHING, math.inf, 1000)


def found(gain: float, kv_bytes: int = 400) -> Replan:
    def split(size: int, requests_per_s: float) -> MemorySplit:
        return MemorySplit(size, 1000 - size, requests_per_s, Bound.GENERATION, WRITING)

    return Replan(split(100, 2.0), split(kv_bytes, 2.0 * (1 + gain)), math.inf)


def test_requests_that_write_more_want_more_pages() -> None:
    replan = find_replan(CURVES, PLANNED, WRITING, math.inf)
    assert replan is not None
    assert replan.present.kv_bytes == 100
    assert replan.present.requests_per_s == pytest.approx(2 / 3)
    assert replan.better.kv_bytes == 400
    assert replan.better.requests_per_s == pytest.approx(8 / 3)
    assert replan.better.rest_bytes == 600
    assert replan.gain == pytest.approx(3.0)


def test_requests_as_they_were_planned_for_want_nothing() -> None:
    assert find_replan(CURVES, PLANNED, SEARCHING, math.inf) is None


def test_a_load_that_the_present_split_serves_wants_nothing() -> None:
    assert find_replan(CURVES, PLANNED, WRITING, 0.5) is None


def test_a_higher_rate_of_the_same_requests_wants_more_pages() -> None:
    slow = split_memory(CURVES, StageMix(1.0, 1.0), 1.0, 1000)
    replan = find_replan(CURVES, slow, StageMix(1.0, 1.0), 4.0)
    assert replan is not None
    assert (slow.kv_bytes, replan.better.kv_bytes, replan.rate_per_s) == (100, 200, 4.0)


def test_fewer_pages_with_the_same_throughput_are_not_advised() -> None:
    large = split_memory(CURVES, WRITING, math.inf, 1000)
    assert find_replan(CURVES, large, SEARCHING, math.inf) is None


def test_requests_without_generations_and_searches_say_nothing() -> None:
    assert find_replan(CURVES, PLANNED, StageMix(0.0, 0.0), math.inf) is None


def test_a_split_that_serves_nothing_gains_without_bound() -> None:
    curves = MeasuredCurves(
        {100: (RatePoint(1.0, 0.0),), 200: (RatePoint(1.0, 1.0),)}, rising_to(9.0)
    )
    small = MemorySplit(100, 900, 0.0, Bound.GENERATION, WRITING)
    replan = find_replan(curves, small, WRITING, math.inf)
    assert replan is not None
    assert replan.gain == math.inf


def test_advice_waits_until_the_gain_has_lasted() -> None:
    state = review(ReplanState(), found(GAIN_MIN + 0.01), 10.0)
    assert (state.advised, state.differs_since_s) == (None, 10.0)
    state = review(state, found(0.5), 10.0 + HOLD_S - 1)
    assert state.advised is None
    state = review(state, found(0.5), 10.0 + HOLD_S)
    assert state == ReplanState(found(0.5))


def test_a_gain_that_goes_away_begins_anew() -> None:
    state = review(ReplanState(), found(0.5), 0.0)
    state = review(state, None, HOLD_S / 2)
    assert state == ReplanState()
    assert review(state, found(0.5), HOLD_S).advised is None


def test_a_small_gain_is_not_worth_a_restart() -> None:
    assert review(ReplanState(), found(GAIN_MIN - 0.01), 0.0) == ReplanState()


def test_advice_stays_while_some_gain_is_left_and_shows_the_newest_figures() -> None:
    advised = ReplanState(found(0.5))
    weaker = found((GAIN_MIN + GAIN_KEPT) / 2)
    assert review(advised, weaker, 0.0) == ReplanState(weaker)


@pytest.mark.parametrize("now", [None, found(GAIN_KEPT - 0.01), found(0.5, kv_bytes=200)])
def test_advice_changes_only_once_something_else_has_lasted(now: Replan | None) -> None:
    state = review(ReplanState(found(0.5)), now, 0.0)
    assert state.advised == found(0.5)
    expected = now if now is not None and now.gain > GAIN_KEPT else None
    assert review(state, now, HOLD_S) == ReplanState(expected)
