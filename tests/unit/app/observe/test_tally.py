"""What a server counts of the requests and steps that pass by."""

from dataclasses import asdict

import pytest

from heddle.app.observe.tally import Outcome, RequestWatch, Tally, outcome_of
from heddle.core.counts import counters
from heddle.core.degradation import DegradationKind
from heddle.core.errors import (
    Busy,
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    EngineError,
    HeddleError,
    InputError,
    InternalError,
    WorkflowError,
)
from heddle.core.frames import Frame
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FusedKv, KvHandle, Prefilled
from heddle.core.tasks import Optimizations, Priority
from heddle.runtime.events import Answer, NodeStarted, RequestEvent, RequestFailed, TokenDelta
from heddle.runtime.receipt import Receipt, ReceiptDraft, RequestCounts
from heddle.workflow.presets import preset
from tests.helpers.fake_ports import ManualClock


def receipt(**counts: float) -> Receipt:
    return ReceiptDraft(**counts).close(Optimizations.APPROX, 0.5, "exact")


def answer(of: Receipt) -> Answer:
    return Answer("Ada", (), {}, of)


class Watched:
    """A request for hyde, whose first generation only imagines, 3 s after the clock's start."""

    def __init__(self) -> None:
        self.tally, self.clock, self.seen = Tally(), ManualClock(), []
        self.clock.time_s = 3.0
        self.watch = RequestWatch(
            self.tally,
            self.seen.append,
            self.clock,
            preset("hyde").compile(),
            Priority.INTERACTIVE,
            arrived_s=3.0,
        )

    def push(self, event: RequestEvent, at_s: float) -> None:
        self.clock.time_s = at_s
        self.watch.push(event)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Busy("full", wait_s=1.0), Outcome.BUSY),
        (DeadlineExceeded("no answer"), Outcome.LATE),
        (Cancelled("by the caller"), Outcome.CANCELLED),
        (InputError("empty"), Outcome.REFUSED),
        (WorkflowError("it loops"), Outcome.REFUSED),
        (ConfigError("no engine does that"), Outcome.REFUSED),
        (EngineError("lost", engine="llm", request_ids=(1,)), Outcome.FAILED),
        (InternalError("a bug"), Outcome.FAILED),
    ],
)
def test_an_error_is_one_outcome(error: HeddleError, outcome: Outcome):
    assert outcome_of(error) is outcome
    watched = Watched()
    watched.push(RequestFailed(error), 4.0)
    assert watched.tally.outcomes == {(Priority.INTERACTIVE, outcome): 1}
    assert sum(watched.tally.durations[Priority.INTERACTIVE].counts) == 0


def test_every_event_goes_on():
    watched = Watched()
    events = [NodeStarted("answer", 0), TokenDelta("answer", "A"), answer(receipt())]
    for event in events:
        watched.push(event, 4.0)
    assert watched.seen == events


def test_the_first_token_is_that_of_a_node_that_may_write_the_answer():
    watched = Watched()
    nodes = list(watched.watch.workflow.nodes)
    imagines, answers = nodes[0], nodes[-1]
    assert watched.watch.workflow.outputs == {answers}
    watched.push(TokenDelta(imagines, "Per"), 3.5)
    watched.push(TokenDelta(answers, "Ada"), 5.0)
    watched.push(TokenDelta(answers, "."), 9.0)
    times = watched.tally.first_tokens[Priority.INTERACTIVE]
    assert (times.total, sum(times.counts)) == (2.0, 1)
    assert sum(watched.tally.first_tokens[Priority.NORMAL].counts) == 0


def test_receipts_add_up():
    tally = Tally()
    counts = {one.name: number for number, one in enumerate(counters(RequestCounts), start=1)}
    for _ in range(3):
        tally.answered(Priority.BULK, receipt(**counts))
    assert asdict(tally.counts) == {name: 3 * value for name, value in counts.items()}
    assert tally.outcomes == {(Priority.BULK, Outcome.ANSWERED): 3}
    assert tally.durations[Priority.BULK].total == 1.5


def test_chunks_and_degradations_add_up_by_kind():
    draft = ReceiptDraft()
    fused = FusedKv("fusionrag", 0.1, {"alias": 2, "miss": 1}, notes=("late", "later"))
    for number in range(2):
        draft.take_prompt("p", Prefilled(KvHandle("llm", 1, number), 9, 3, fused=fused))
    draft.degrade(DegradationKind.RETRY, f"{PrimitiveKind.SEARCHING.value} retried")
    tally = Tally()
    tally.answered(Priority.NORMAL, draft.close(Optimizations.APPROX, 1.0, "exact"))
    assert tally.chunks == {"alias": 4, "miss": 2}
    assert tally.degradations == {"chunk_kv": 4, "retry": 1}


def test_steps_are_told_apart_by_engine_and_empty_ones_left_out():
    tally = Tally()
    for engine, seconds in (("llm", 0.25), ("vector", 0.125), ("llm", 0.5), ("tools", 0.0)):
        tally.step(Frame(engine, 1, seconds, ()), 7.0)
    assert {name: (sum(h.counts), h.total) for name, h in tally.steps.items()} == {
        "llm": (2, 0.75),
        "vector": (1, 0.125),
    }
