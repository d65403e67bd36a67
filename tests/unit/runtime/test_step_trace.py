import pytest

from heddle.core.frames import Frame
from heddle.runtime.step_log import StepLog
from heddle.runtime.step_trace import Overlap, StepTrace, overlap_of


def step(lane: str, seconds: float) -> Frame:
    return Frame(lane, 1, seconds, ())


@pytest.fixture
def trace() -> StepTrace:
    """Three steps: two of one lane, and one of another between them."""
    trace = StepTrace(steps_max=3)
    trace.step(step("retrieval", 2.0), ended_s=2.0)
    trace.step(step("llm", 2.0), ended_s=3.0)
    trace.step(step("retrieval", 1.0), ended_s=6.0)
    return trace


def test_it_tells_how_long_each_lane_worked(trace):
    assert trace.busy_s() == {"retrieval": 3.0, "llm": 2.0}


def test_of_a_step_that_had_begun_before_only_the_rest_counts(trace):
    assert trace.busy_s(since_s=1.5) == {"retrieval": 1.5, "llm": 1.5}
    assert trace.busy_s(since_s=4.0) == {"retrieval": 1.0}
    assert trace.busy_s(since_s=9.0) == {}


def test_it_tells_what_ran_at_once(trace):
    assert trace.overlap() == Overlap(busy_s=4.0, overlapped_s=1.0)
    assert trace.overlap(since_s=1.0) == Overlap(busy_s=3.0, overlapped_s=0.0)


def test_the_oldest_steps_are_forgotten(trace):
    trace.step(step("llm", 0.5), ended_s=7.0)
    assert trace.busy_s() == {"retrieval": 1.0, "llm": 2.5}


def test_steps_that_took_no_time_are_left_out():
    trace = StepTrace()
    trace.step(step("llm", 0.0), ended_s=1.0)
    assert (trace.busy_s(), trace.overlap()) == ({}, Overlap(0.0, 0.0))


def test_intervals_that_only_touch_do_not_overlap():
    assert overlap_of([(0.0, 1.0), (1.0, 2.0)]) == Overlap(busy_s=2.0, overlapped_s=0.0)


def test_a_log_hears_of_each_step_that_took_time(trace):
    trace.log = StepLog()
    trace.step(step("llm", 0.0), ended_s=7.0)
    trace.step(step("llm", 0.5), ended_s=7.5)
    assert [(s.engine, s.start_s, s.end_s) for s in trace.log.steps] == [("llm", 7.0, 7.5)]
