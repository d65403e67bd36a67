"""What the engines work on right now: tasks and leases, and the credits they hold."""

from dataclasses import dataclass, field

from heddle.core.commands import Admit, Cancel, Release
from heddle.core.payloads import DecodePayload, Payload, PrefillPayload
from heddle.core.results import KvHandle
from heddle.core.tasks import Identity, Task
from heddle.runtime.lane import Lane
from heddle.runtime.request import PrimitiveRun, Request


@dataclass(slots=True)
class TaskRun:
    """One task in flight: rows `first_row` and after of a primitive, holding `rows` credits.

    `prefill` names the lease a generation's task belongs to. `epoch` is the lane's at the time
    of sending. The events of a task that is detached only return its credits. Its lane
    counts its `tokens`, and `is_call` as one that is waited for: of a pair that is the decode, and
    a guess never is.
    """

    request: Request
    run: PrimitiveRun
    lane: Lane
    epoch: int
    rows: int
    first_row: int
    sent_s: float
    tokens: int = 0
    prefill: int | None = None
    is_call: bool = True
    is_detached: bool = False


@dataclass(slots=True)
class Lease:
    """KV pages that a prefill holds: given back when its tasks have ended."""

    handle: KvHandle
    lane: Lane
    tasks: set[int]


@dataclass(slots=True)
class TaskTable:
    """Every task and lease that is out.

    Mutates: `send` adds a task and takes its credits; `end` removes it and gives them back.
    Credits change here and nowhere else.
    """

    open: dict[int, TaskRun] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    _next_id: int = 1

    def new_id(self) -> int:
        """Return a number that nothing else sent has."""
        self._next_id += 1
        return self._next_id - 1

    def send(
        self,
        lane: Lane,
        request: Request,
        run: PrimitiveRun,
        payload: Payload,
        *,
        credit_rows: int = 1,
        first_row: int = 0,
        report_every: int = 0,
        now_s: float,
    ) -> int:
        """Send a payload to a lane as a new task, and return its id.

        It takes `credit_rows` credits; the lane reports progress every `report_every` units,
        0 = never.
        """
        task_id = self.new_id()
        primitive, port = run.primitive, lane.port
        identity = Identity(
            request.id,
            primitive.node,
            run.plan.depth + request.depth_behind,
            request.tenant,
            request.priority,
            request.first_request,
        )
        seconds_left = request.deadline_s - now_s
        task = Task(task_id, primitive.kind, identity, payload, seconds_left, request.optimizations)
        port.credits.take(credit_rows)
        tokens = token_count(payload)
        is_call = credit_rows > 0 and not _has_rider(payload)
        lane.begin(tokens)
        if is_call:
            lane.use.enter(now_s)
        request.tasks.add(task_id)
        port.send(Admit(task, report_every))
        # Read after sending: a lane that is lost in between has failed the task, while a lease of
        # the epoch before would never be released.
        self.open[task_id] = TaskRun(
            request, run, lane, port.epoch, credit_rows, first_row, now_s, tokens, is_call=is_call
        )
        return task_id

    def lease(self, prefill_id: int, decode_id: int) -> None:
        """Hold the KV of a prefill until it and the decode that rides with it have ended."""
        prefill, decode = self.open[prefill_id], self.open[decode_id]
        prefill.prefill = decode.prefill = prefill_id
        handle = KvHandle(prefill.lane.port.name, prefill.epoch, prefill_id)
        self.leases[prefill_id] = Lease(handle, prefill.lane, {prefill_id, decode_id})

    def end(self, task_id: int, now_s: float) -> TaskRun:
        """Take in that a task has ended, and return it."""
        task = self.open.pop(task_id)
        task.request.tasks.discard(task_id)
        task.lane.port.credits.give_back(task.rows)
        task.lane.end(task.tokens)
        if task.is_call:
            task.lane.use.leave(now_s)
        self._close_lease(task, task_id)
        return task

    def detach(self, request: Request, run: PrimitiveRun) -> None:
        """Cancel what is in flight for a primitive, and hear no more of it."""
        for task_id in sorted(request.tasks):
            task = self.open[task_id]
            if task.run is run:
                task.is_detached = True
                task.lane.port.send(Cancel(task_id))

    def cancel(self, request: Request) -> None:
        """Cancel everything that is in flight for a request."""
        for task_id in sorted(request.tasks):
            self.open[task_id].lane.port.send(Cancel(task_id))

    def _close_lease(self, task: TaskRun, task_id: int) -> None:
        lease = self.leases.get(task.prefill) if task.prefill is not None else None
        if lease is None:
            return
        lease.tasks.discard(task_id)
        if not lease.tasks:
            del self.leases[lease.handle.id]
            lease.lane.port.send(Release(lease.handle))


def token_count(payload: Payload) -> int:
    """Return the tokens that an LLM task computes: its prompt, or one for a decode's next step."""
    if isinstance(payload, PrefillPayload):
        return sum([len(segment.token_ids or ()) for segment in payload.segments])
    return int(isinstance(payload, DecodePayload))


def _has_rider(payload: Payload) -> bool:
    """Whether another task, sent with this one, is what is waited for."""
    return isinstance(payload, PrefillPayload) and payload.has_rider
