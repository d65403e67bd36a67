"""What searches take is shared out by the lists that each has scanned."""

import pytest

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Frame
from heddle.runtime.search_meter import CALLS_KEPT, TOLD_EVERY, SearchMeter

COSTS = CostSnapshot("vector", 1, {"call": 1.0, "scans": 0.5, "lists": 0.1})


def frame(seconds, scans, costs=COSTS):
    return Frame("vector", 1, seconds, (), features={"scans": scans}, costs=costs)


def test_nothing_is_told_before_enough_have_ended_and_then_once():
    meter = SearchMeter()
    for number in range(TOLD_EVERY):
        assert meter.take() == ()
        meter.step(frame(1.5 + 4.0, 1))
        meter.ended(float(number), 8)
    calls = meter.take()
    assert len(calls) == TOLD_EVERY
    assert meter.take() == ()


def test_work_is_the_time_beside_the_overheads_by_lists():
    meter = SearchMeter()
    for number in range(TOLD_EVERY):
        lists = 4 if number % 2 else 12
        meter.step(frame(1.0 + 2 * 0.5 + 0.25 * lists, 2))
        meter.ended(float(-number), lists)
    calls = meter.take()
    assert [call.sent_s for call in calls] == sorted(call.sent_s for call in calls)
    assert {round(call.work_s, 1) for call in calls} == {1.0, 3.0}


def test_the_newest_are_kept():
    meter = SearchMeter()
    meter.step(frame(2.0, 1))
    for number in range(3 * CALLS_KEPT):
        meter.ended(float(number), 1)
    assert [call.sent_s for call in meter.take()] == list(range(2 * CALLS_KEPT, 3 * CALLS_KEPT))


@pytest.mark.parametrize(
    "step", [frame(9.0, 0), frame(9.0, 1, None), frame(9.0, 1, COSTS._replace(coefficients_s={}))]
)
def test_steps_that_scan_nothing_or_cost_who_knows_what_don_t_count(step):
    meter = SearchMeter()
    meter.step(step)
    for number in range(TOLD_EVERY):
        meter.ended(float(number), 1)
    assert meter.take() == ()


def test_searches_without_lists_are_not_told():
    meter = SearchMeter()
    for number in range(TOLD_EVERY):
        meter.ended(float(number), 0)
    assert meter.take() == ()
