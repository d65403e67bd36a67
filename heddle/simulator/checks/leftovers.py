"""No lane computes for a task that was cancelled, or whose request has ended."""

from dataclasses import dataclass, field

from heddle.core.commands import Admit, Cancel, Command
from heddle.core.frames import Cancelled, Failed, Frame
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.simulator.checks.check import Check
from heddle.simulator.ticket import Ticket


@dataclass(slots=True)
class LeftoverCheck(Check):
    """Compares what steps report with what was to stop before they began.

    A lane hears of a Cancel after `latency_s`, and the step that runs then may go on to its end:
    that is the bound. A task is to stop when it is cancelled, or when its request has ended. What
    is answered as soon as a lane hears of it is no work: it may have heard of the Cancel as well.
    """

    latency_s: float = 0.0
    _stop_s: dict[int, float] = field(default_factory=dict)  # by task
    _request_of: dict[int, int] = field(default_factory=dict)
    _sent_s: dict[int, float] = field(default_factory=dict)  # by task
    _began_s: dict[str, float] = field(default_factory=dict)  # each lane's step before
    _ended_s: dict[int, float] = field(default_factory=dict)  # by request

    def sent(self, lane: str, command: Command, now_s: float) -> None:
        """Note whose a task is, and when it was cancelled."""
        if isinstance(command, Admit):
            self._request_of[command.task.task_id] = command.task.identity.request_id
            self._sent_s[command.task.task_id] = now_s
        elif isinstance(command, Cancel):
            self._stop_s.setdefault(command.task_id, now_s)

    def heard(self, ticket: Ticket, event: RequestEvent, now_s: float) -> None:
        """Note when a request ended."""
        if isinstance(event, Answer | RequestFailed) and ticket.request_id is not None:
            self._ended_s[ticket.request_id] = now_s

    def stepped(self, lane: str, frame: Frame, began_s: float) -> None:
        """Look for results of work that was to stop before the step."""
        before_s = self._began_s.get(lane, began_s)
        self._began_s[lane] = began_s
        for event in frame.events:
            if isinstance(event, Cancelled | Failed):
                continue
            stop_s = self._stops_at_s(event.task_id)
            is_new = self._sent_s[event.task_id] + self.latency_s > before_s
            if not is_new and stop_s is not None and stop_s + self.latency_s < began_s:
                self.complain(
                    f"lane {lane} went on with task {event.task_id} of request "
                    f"{self._request_of[event.task_id]} {began_s - stop_s:.6f} s after its end"
                )

    def _stops_at_s(self, task_id: int) -> float | None:
        if task_id in self._stop_s:
            return self._stop_s[task_id]
        return self._ended_s.get(self._request_of[task_id])
