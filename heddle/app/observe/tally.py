"""What a server has done since its start, added up from the events and frames that pass by."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from heddle.app.observe.histogram import Histogram, doubling
from heddle.core.errors import (
    Busy,
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    HeddleError,
    InputError,
    WorkflowError,
)
from heddle.core.frames import Frame
from heddle.core.ports import Clock
from heddle.core.tasks import Priority
from heddle.runtime.events import Answer, RequestEvent, RequestFailed, TokenDelta
from heddle.runtime.receipt import Receipt, RequestCounts
from heddle.runtime.request import EventSink
from heddle.workflow.workflow import Workflow

REQUEST_BOUNDS_S: Final = doubling(0.01, 17)  # to 655 s: deadlines are 600 s by default
STEP_BOUNDS_S: Final = doubling(0.0005, 14)  # to 4.1 s


class Outcome(Enum):
    """How a request ended."""

    ANSWERED = "answered"
    LATE = "late"  # answered after its deadline, or given up at the deadline
    BUSY = "busy"  # refused at once, for want of room or time
    REFUSED = "refused"  # the request itself can't be run
    CANCELLED = "cancelled"
    FAILED = "failed"


_OUTCOMES: Final[dict[type[HeddleError], Outcome]] = {
    Busy: Outcome.BUSY,
    DeadlineExceeded: Outcome.LATE,
    Cancelled: Outcome.CANCELLED,
    InputError: Outcome.REFUSED,
    WorkflowError: Outcome.REFUSED,
    ConfigError: Outcome.REFUSED,
}


def outcome_of(error: HeddleError) -> Outcome:
    """Return how a request ended that ended with an error."""
    found = (outcome for kind, outcome in _OUTCOMES.items() if isinstance(error, kind))
    return next(found, Outcome.FAILED)


@dataclass(slots=True)
class Tally:
    """Counts of a server's requests and steps; a `Tracer`.

    Args:
        outcomes: ended requests, by priority and outcome.
        durations: from arrival to answer; answered requests only [s].
        first_tokens: from arrival to the first token of a node that may write the answer [s].
        steps: of each engine [s].
        counts: sums over answered requests.
        chunks: looked-up chunk KV, by kind of hit.
        degradations: where requests ran degraded, by `DegradationKind`.
        answer_lookups: lookups among the kept answers, by `LookupOutcome`.

    Mutates: every method counts; only the runtime's thread may call them.
    """

    outcomes: Counter[tuple[Priority, Outcome]] = field(default_factory=Counter)
    durations: dict[Priority, Histogram] = field(
        default_factory=lambda: {priority: Histogram(REQUEST_BOUNDS_S) for priority in Priority}
    )
    first_tokens: dict[Priority, Histogram] = field(
        default_factory=lambda: {priority: Histogram(REQUEST_BOUNDS_S) for priority in Priority}
    )
    steps: dict[str, Histogram] = field(default_factory=dict)
    counts: RequestCounts = field(default_factory=RequestCounts)
    chunks: Counter[str] = field(default_factory=Counter)
    degradations: Counter[str] = field(default_factory=Counter)
    answer_lookups: Counter[str] = field(default_factory=Counter)

    def step(self, frame: Frame, ended_s: float) -> None:
        """Take in one step of an engine."""
        if frame.seconds > 0:
            steps = self.steps.setdefault(frame.lane, Histogram(STEP_BOUNDS_S))
            steps.observe(frame.seconds)

    def answered(self, priority: Priority, receipt: Receipt) -> None:
        """Count a request that has its answer, and what was done for it."""
        self.outcomes[priority, Outcome.ANSWERED] += 1
        self.durations[priority].observe(receipt.latency_s)
        self.counts.add(receipt)
        for fused in receipt.kv_reuse:
            self.chunks.update(fused.chunks)
        self.degradations.update(one.kind.value for one in receipt.degradations)
        if receipt.answer_lookup is not None:
            self.answer_lookups[receipt.answer_lookup.outcome.value] += 1

    def failed(self, priority: Priority, error: HeddleError) -> None:
        """Count a request that ended with an error, or was not let in."""
        self.outcomes[priority, outcome_of(error)] += 1


@dataclass(slots=True)
class RequestWatch:
    """Counts what comes of a request while its events pass by.

    Args:
        tally: where it is counted.
        sink: whom the events are for.
        clock: the runtime's.
        workflow: says which nodes may write the answer.
        priority: the request's.
        arrived_s: when it came [s].
    """

    tally: Tally
    sink: EventSink
    clock: Clock
    workflow: Workflow
    priority: Priority
    arrived_s: float
    _has_token: bool = False

    def push(self, event: RequestEvent) -> None:
        """Count an event and pass it on."""
        match event:
            case TokenDelta(node=node) if not self._has_token and node in self.workflow.outputs:
                self._has_token = True
                waited_s = self.clock.now_s() - self.arrived_s
                self.tally.first_tokens[self.priority].observe(waited_s)
            case Answer(receipt=receipt):
                self.tally.answered(self.priority, receipt)
            case RequestFailed(error=error):
                self.tally.failed(self.priority, error)
        self.sink(event)
