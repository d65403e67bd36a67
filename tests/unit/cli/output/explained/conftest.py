"""An explanation of a made-up run, whose names try to be markup and terminal commands."""

import pytest

from heddle.app.explain.analysis import Analysis
from heddle.app.explain.explanation import Explainer, Explanation
from heddle.core.primitives import PrimitiveKind as Kind
from heddle.core.tasks import Optimizations
from heddle.exporters.measured_run import MeasuredRun
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import initial_scope
from heddle.passes.runner import CycleCount, PassRunner
from heddle.runtime.receipt import ReceiptDraft, Span, Speculation
from heddle.runtime.step_log import EngineStep
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow
from tests.helpers.fake_ports import ManualClock

EVIL = "<script>alert('x')</script>\x1b[31m"


@pytest.fixture
def evil() -> Workflow:
    graph = RAGraph(EVIL)
    graph.add_retrieval(EVIL, output="docs")
    graph.add_generation("answer", "{docs}{query}")
    return graph.compile()


def run_of(start_s: float) -> MeasuredRun:
    spans = [
        Span(f"{EVIL}.embedding@0", EVIL, Kind.EMBEDDING, EVIL, 0.0, 0.0, 0.25, rows=3),
        Span(f"{EVIL}.searching@0", EVIL, Kind.SEARCHING, "vector", 0.25, 0.5, 1.0),
        Span("answer.prefilling@0", "answer", Kind.PREFILLING, "llm", 1.0, 1.0, 1.5),
        Span("answer.decoding@0", "answer", Kind.DECODING, "llm", 1.0, 1.0, 3.0),
    ]
    guesses = [
        Speculation("answer", 0, 0.75, 0.25, 0.5, is_adopted) for is_adopted in (True, False)
    ]
    receipt = ReceiptDraft(
        spans=spans,
        barriers=[f"line 3 waited for {EVIL!r}"],
        repeated=1,
        rows_ahead=3,
        drafted_tokens=8,
        accepted_tokens=5,
        speculations=guesses,
    )
    steps = (
        EngineStep(EVIL, start_s, start_s + 0.25, 0.125),
        EngineStep("vector", start_s + 0.5, start_s + 1.0, None),
        EngineStep("llm", start_s + 0.75, start_s + 3.0, 2.0),
    )
    return MeasuredRun(receipt.close(Optimizations.EXACT, 3.25, "exact"), start_s, steps)


def explained(workflow: Workflow, analysis: Analysis | None, **options: object) -> Explanation:
    return Explainer(PassRunner(ManualClock()), **options).explain(workflow, analysis)


@pytest.fixture
def analysis(evil: Workflow) -> Analysis:
    graph = lower_region(evil, evil.entries, initial_scope({"query": ""})).graph
    counts = {"split_substages": CycleCount(4, 3, 0.5)}
    return Analysis((run_of(10.0), run_of(20.0)), (graph,), counts, steps_left_out=7)


@pytest.fixture
def measured(evil: Workflow, analysis: Analysis) -> Explanation:
    return explained(evil, analysis)


@pytest.fixture
def unmeasured(evil: Workflow) -> Explanation:
    return explained(evil, None)
