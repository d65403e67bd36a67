"""The table of stages, from hand-made spans and steps."""

import pytest

from heddle.core.primitives import PrimitiveKind as Kind
from heddle.core.tasks import Optimizations
from heddle.exporters.measured_run import MeasuredRun, StageWork
from heddle.exporters.stage_table import middle_run, stage_table
from heddle.runtime.receipt import ReceiptDraft, Span
from heddle.runtime.step_log import EngineStep

START_S = 100.0


def run_of(*spans: Span, latency_s: float, steps: tuple[EngineStep, ...] = ()) -> MeasuredRun:
    receipt = ReceiptDraft(spans=list(spans)).close(Optimizations.EXACT, latency_s, "exact")
    return MeasuredRun(receipt, START_S, steps)


def step(engine: str, start_s: float, end_s: float, predicted_s: float | None = None) -> EngineStep:
    return EngineStep(engine, START_S + start_s, START_S + end_s, predicted_s)


def search(sent_s: float, done_s: float, name: str = "a.searching@0") -> Span:
    return Span(name, "a", Kind.SEARCHING, "vector", 0.0, sent_s, done_s)


PREFILL = Span("b.prefilling@0", "b", Kind.PREFILLING, "llm", 2.0, 2.0, 3.0)
DECODE = Span("b.decoding@0", "b", Kind.DECODING, "llm", 2.0, 2.0, 5.0)


def test_rows_are_medians_in_the_order_in_which_stages_begin():
    runs = [run_of(search(w, 2.0), PREFILL, DECODE, latency_s=5.0) for w in (0.0, 0.5, 1.5)]
    table = stage_table(runs)
    assert [row.name for row in table.rows] == ["a.searching@0", "b.prefilling@0", "b.decoding@0"]
    first = table.rows[0]
    assert (first.waited_s, first.ran_s, first.share, first.runs) == (0.5, 1.5, 0.3, 3)
    assert (table.latency_s, table.runs, table.overlap) == (5.0, 3, None)
    assert (first.computed_s, first.predicted_s) == (None, None)


def test_a_stage_that_some_runs_lack_says_so():
    table = stage_table([run_of(search(0, 1), latency_s=1.0), run_of(PREFILL, latency_s=3.0)])
    assert {row.name: row.runs for row in table.rows} == {"a.searching@0": 1, "b.prefilling@0": 1}


def test_a_request_that_took_no_time_has_no_shares():
    assert stage_table([run_of(search(0, 0), latency_s=0.0)]).rows[0].share == 0.0


def test_steps_belong_to_the_stage_that_their_engine_had():
    steps = (
        step("vector", 0.5, 1.0, 0.25),
        step("llm", 2.0, 3.0, 0.5),
        step("llm", 3.0, 4.0, 0.75),
        step("llm", 4.0, 5.0, 0.75),
        step("tools", 0.0, 9.0, 1.0),
    )
    run = run_of(search(0.0, 2.0), PREFILL, DECODE, latency_s=5.0, steps=steps)
    assert run.work() == {
        "a.searching@0": StageWork(0.5, 0.25),
        "b.prefilling@0": StageWork(1.0, 0.5),
        "b.decoding@0": StageWork(2.0, 1.5),
    }


def test_stages_that_an_engine_has_at_once_share_its_steps():
    spans = search(0.0, 2.0), search(0.0, 2.0, "a.searching@1")
    run = run_of(*spans, latency_s=2.0, steps=(step("vector", 0.5, 1.5, 0.5),))
    assert run.work() == {name: StageWork(0.5, 0.25) for name in ("a.searching@0", "a.searching@1")}


def test_a_step_just_outside_of_a_stage_is_that_stage_s():
    run = run_of(search(1.0, 2.0), latency_s=2.0, steps=(step("vector", 2.0, 2.001),))
    assert run.work()["a.searching@0"].computed_s == pytest.approx(0.001)


def test_one_step_without_a_prediction_leaves_the_stage_without():
    steps = step("vector", 0.0, 0.5, 0.25), step("vector", 0.5, 1.0)
    runs = [run_of(search(0, 1), latency_s=1.0, steps=some) for some in (steps, steps[:1])]
    assert [run.work()["a.searching@0"].predicted_s for run in runs] == [None, 0.25]
    assert stage_table(runs).rows[0].predicted_s == 0.25


def test_overlap_is_the_share_of_engine_time_in_which_two_worked():
    steps = step("vector", 0.0, 2.0), step("llm", 1.0, 4.0)
    runs = [run_of(search(0, 2), PREFILL, latency_s=5.0, steps=steps) for _ in range(2)]
    assert stage_table(runs).overlap == 0.25


@pytest.mark.parametrize(("latencies", "middle"), [((3, 1, 2), 2), ((4, 1, 2, 3), 2), ((7,), 7)])
def test_the_middle_run(latencies: tuple[float, ...], middle: float):
    runs = [run_of(latency_s=latency_s) for latency_s in latencies]
    assert middle_run(runs).receipt.latency_s == middle
