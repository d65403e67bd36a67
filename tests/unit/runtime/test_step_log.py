"""Steps one by one: predictions come from what was known before each."""

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Frame
from heddle.runtime.step_log import EngineStep, StepLog, one_by_one


def frame(seconds: float, token_s: float | None, lane: str = "llm", tokens: float = 2.0) -> Frame:
    costs = None if token_s is None else CostSnapshot(lane, 1, {"tokens": token_s})
    return Frame("llm", 1, seconds, (), features={"tokens": tokens}, costs=costs)


def test_a_step_is_predicted_by_the_costs_before_it():
    log = StepLog()
    log.step(frame(1.0, 0.25), ended_s=1.0)
    log.step(frame(0.5, 9.0), ended_s=2.0)
    assert log.steps == [
        EngineStep("llm", 0.0, 1.0, None, "llm"),
        EngineStep("llm", 1.5, 2.0, 0.5, "llm"),
    ]


def test_lanes_behind_one_engine_have_costs_of_their_own():
    log = StepLog()
    for lane, token_s in (("llm-0", 1.0), ("llm-1", 2.0), ("llm-0", 1.0), ("llm-1", 2.0)):
        log.step(frame(1.0, token_s, lane), ended_s=1.0)
    assert [step.predicted_s for step in log.steps] == [None, None, 2.0, 4.0]


def test_an_engine_without_costs_has_no_prediction():
    log = StepLog()
    for _ in range(2):
        log.step(frame(1.0, None), ended_s=1.0)
    assert [step.predicted_s for step in log.steps] == [None, None]


def test_steps_beyond_the_last_that_is_kept_are_counted():
    log = StepLog(steps_max=2)
    for at_s in (1.0, 2.0, 3.0, 4.0):
        log.step(frame(0.5, 0.25), ended_s=at_s)
    assert [step.end_s for step in log.steps] == [1.0, 2.0]
    assert log.left_out == 2


def test_steps_of_one_lane_end_before_the_next_begins():
    first, second = EngineStep("llm", 1.0, 2.0, None), EngineStep("llm", 1.5, 2.5, 0.25)
    other = EngineStep("llm", 1.0, 2.0, None, lane="llm-1")
    before = EngineStep("llm", 0.0, 0.25, None)
    assert one_by_one([before, first, other, second]) == (
        before,
        EngineStep("llm", 0.5, 1.5, None),
        other,
        second,
    )


def test_a_whole_row_of_held_up_steps_moves():
    held = [EngineStep("llm", 2.0, 3.0, None) for _ in range(3)]
    assert [step.start_s for step in one_by_one(held)] == [0.0, 1.0, 2.0]
