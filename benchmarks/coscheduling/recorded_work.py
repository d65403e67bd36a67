"""What requests made the engines do, and what that took: `workflows --simulated` replays it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from heddle.core.commands import Admit, Command
from heddle.core.frames import Done, Frame
from heddle.core.payloads import DecodePayload, EmbedPayload, PrefillPayload, SearchPayload
from heddle.core.results import Generated, Result, Vectors
from heddle.core.tasks import Task

SECONDS: Final = "seconds"
REQUESTS_MAX: Final = 120  # of one driver: as many as are replayed
Call = dict[str, object]


@dataclass(slots=True)
class RecordedWork:
    """The calls of each request of a Heddle driver, and every engine's costs.

    `requests` has a workflow's name and its calls, in the order in which they were sent. A prompt
    has the role and length of each segment and the length of its text [tokens], a search its
    queries, an embedding the tokens of all its texts. `sums` adds up the features, steps and
    seconds of each engine, `costs` is its newest cost model [s].

    Mutates: every method adds to it.
    """

    requests: list[tuple[str, list[Call]]] = field(default_factory=list)
    sums: dict[str, dict[str, float]] = field(default_factory=dict)
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    _open: dict[int, Call] = field(default_factory=dict)  # by task
    _under_way: dict[int, list[Call]] = field(default_factory=dict)  # by the driver's request

    def begins(self, request_id: int, workflow: str) -> None:
        """Note a request whose calls follow; those of others are not recorded."""
        calls = self._under_way[request_id] = []
        if len(self.requests) < REQUESTS_MAX:
            self.requests.append((workflow, calls))

    def sent(self, command: Command) -> None:
        """Note a call."""
        if isinstance(command, Admit):
            self._called(command.task)

    def told(self, frame: Frame) -> None:
        """Note a step, and the calls that ended with it."""
        sums = self.sums.setdefault(frame.lane, {})
        for name, value in {SECONDS: frame.seconds, "steps": 1.0, **frame.features}.items():
            sums[name] = sums.get(name, 0.0) + value
        if frame.costs is not None:
            self.costs[frame.lane] = dict(frame.costs.coefficients_s)
        for event in frame.events:
            if isinstance(event, Done) and event.task_id in self._open:
                self._ended(self._open.pop(event.task_id), event.result)

    def since(self, before: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """Return what was added to `sums` since a copy of them was taken, without the seconds."""
        return {
            engine: {
                name: value - before.get(engine, {}).get(name, 0.0)
                for name, value in sums.items()
                if name != SECONDS
            }
            for engine, sums in self.sums.items()
        }

    def as_json(self) -> dict[str, object]:
        """Return all of it as JSON values."""
        requests = [{"workflow": name, "calls": calls} for name, calls in self.requests]
        return {"requests": requests, "sums": self.sums, "costs": self.costs}

    def _called(self, task: Task) -> None:
        payload = task.payload
        if isinstance(payload, DecodePayload):  # it writes the text of the prompt's call
            if payload.prefill_task in self._open:
                self._open[task.task_id] = self._open.pop(payload.prefill_task)
            return
        if isinstance(payload, PrefillPayload) and payload.is_speculative:
            return  # its prompt comes again, and is written behind
        call: Call = {"node": task.identity.node}
        if isinstance(payload, PrefillPayload):
            call["segments"] = [
                (segment.role.value, len(segment.token_ids or ())) for segment in payload.segments
            ]
        elif isinstance(payload, EmbedPayload | SearchPayload):
            call["rows"] = payload.rows
        else:
            return
        self._open[task.task_id] = call
        if task.identity.request_id in self._under_way:
            self._under_way[task.identity.request_id].append(call)

    def _ended(self, call: Call, result: Result) -> None:
        if isinstance(result, Generated):
            call["written"] = len(result.token_ids)
        elif isinstance(result, Vectors):
            call["tokens"] = result.tokens
