"""What became of one arrival."""

from dataclasses import dataclass

from heddle.core.errors import Busy
from heddle.runtime.events import Answer, RequestFailed
from heddle.simulator.workload import Arrival


@dataclass(slots=True)
class Ticket:
    """What became of one arrival; `end` stays None where it was turned away as Busy.

    `is_cut_off`: the server has crashed before the end, or was down.
    """

    arrival: Arrival
    request_id: int | None = None
    busy: Busy | None = None
    end: Answer | RequestFailed | None = None
    ended_s: float = 0.0
    events_after_end: int = 0
    is_cut_off: bool = False

    def __str__(self) -> str:
        return f"request {self.request_id} ({self.arrival.workflow.name})"

    @property
    def latency_s(self) -> float:
        """Time from arrival to end [s]."""
        return self.ended_s - self.arrival.at_s

    @property
    def end_name(self) -> str:
        """How it ended, in a word."""
        if self.busy is not None:
            return "Busy"
        if isinstance(self.end, RequestFailed):
            return type(self.end.error).__name__
        if self.is_cut_off:
            return "CutOff"
        return "lost" if self.end is None else "Answer"
