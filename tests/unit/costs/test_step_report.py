"""What engines tell after a step."""

import pytest

from heddle.core.frames import Cancelled, Done, Failed, Load, Progress
from heddle.core.results import Ingested
from heddle.costs.step_report import FIT_EVERY, FIT_EVERY_STEP_UNTIL, StepReport


class ManualClock:
    def __init__(self) -> None:
        self.time_s = 5.0

    def now_s(self) -> float:
        return self.time_s


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def report(clock: ManualClock) -> StepReport:
    return StepReport("lane", 3, clock, {"call": 1.0, "rows": 0.5})


def step(report: StepReport, clock: ManualClock, seconds: float, *, has_computed: bool = True):
    report.begin()
    clock.time_s += seconds
    return report.frame(
        {"call": 1.0, "rows": 2.0}, Load(running=1), has_computed=has_computed, has_work=True
    )


def test_a_frame_holds_the_step_and_what_happened_since_the_last_one(report, clock):
    report.failed(1, "the text is no text", is_input=True)
    report.begin()
    report.tell(Progress(2, text="so far"))
    report.done(2, Ingested(4, 7))
    report.cancelled(3)
    assert report.has_events
    clock.time_s += 0.25
    frame = report.frame({"call": 1.0}, Load(2, 1), has_computed=True, has_work=False)
    assert [type(event) for event in frame.events] == [Failed, Progress, Done, Cancelled]
    assert [event.task_id for event in frame.events] == [1, 2, 2, 3]
    assert frame.events[0].is_input
    assert (frame.lane, frame.epoch, frame.seconds) == ("lane", 3, 0.25)
    assert (frame.features, frame.load, frame.has_work) == ({"call": 1.0}, Load(2, 1), False)
    assert not report.has_events
    assert step(report, clock, 0.1).events == ()


def test_the_cost_model_follows_the_steps_that_computed(report, clock):
    assert report.costs.samples == 0
    for _ in range(40):
        frame = step(report, clock, 6.0)
    assert frame.costs is report.costs
    assert report.costs.samples == 40
    assert report.costs.predict_s({"call": 1.0, "rows": 2.0}) == pytest.approx(6.0, rel=0.01)
    step(report, clock, 900.0, has_computed=False)
    assert report.costs.samples == 40


def test_a_known_lane_is_fitted_now_and_then(report, clock):
    for _ in range(FIT_EVERY_STEP_UNTIL + 3 * FIT_EVERY):
        step(report, clock, 1.0)
    assert report.costs.samples == FIT_EVERY_STEP_UNTIL + 3


def test_a_clock_that_goes_back_makes_no_negative_step(report, clock):
    assert step(report, clock, -1.0).seconds == 0.0
