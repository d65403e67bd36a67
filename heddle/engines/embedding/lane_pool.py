"""Several embedding lanes behind one port: the runtime sees one engine, the books decide."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from heddle.core.commands import Admit, Cancel, Command, Steer
from heddle.core.credits import Credits
from heddle.core.errors import Busy
from heddle.core.frames import TERMINAL, Cancelled, Done, Event, Failed, Frame, Load
from heddle.core.payloads import EmbedPayload
from heddle.core.ports import Clock, EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.core.tasks import Identity, Priority, Task
from heddle.costs.batch_cost import BatchShape
from heddle.engines.embedding.lane_queue import Ticket
from heddle.engines.embedding.queue_manager import QueueManager
from heddle.engines.embedding.split_task import SplitTask, parts_of
from heddle.engines.embedding.token_estimate import TokenEstimate

OnEnd = Callable[[Event], None]
PARTS_A_LANE: Final = 2  # of a task in parts: one that is computed, one that waits for it


@dataclass(slots=True)
class PooledTask:
    """A task from its admission to its terminal event; `on_end` None = the runtime's own.

    `is_part`: it is a part of another task, and its time is over when that of the whole is.
    """

    task: Task
    texts: tuple[str, ...]
    deadline_s: float
    port: EnginePort | None = None
    on_end: OnEnd | None = None
    is_part: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether the pool ends it when its time is over; the runtime ends its own."""
        return self.on_end is not None and not self.is_part


@dataclass(slots=True)
class LanePool:
    """EnginePort over several embedding lanes, and the embedding service's door.

    What the runtime sends was admitted with its request, so it waits here when no lane is free;
    what comes through `submit` is placed at once or refused at once. A task of more than one step
    is computed in parts, and holds others of its class up for a few steps at most.

    Args:
        name: the engine's name, as the runtime sees it.
        ports: the lanes; the manager has a queue of the same name for each.
        manager: decides.
        estimate: how long texts will be.
        clock: the time of deadlines.
        is_up: whether a lane can work right now; where none can, all wait for what comes back.
        credits: rows that the runtime may have here, waiting ones included.

    `due_s` is when the first task that came through `submit` is out of time, or earlier; inf = none
    ever is.

    Mutates: the manager's books; one thread may call it.
    """

    name: str
    ports: Sequence[EnginePort]
    manager: QueueManager
    estimate: TokenEstimate
    clock: Clock
    is_up: Callable[[EnginePort], bool]
    credits: Credits
    epoch: int = 1
    kinds: frozenset[PrimitiveKind] = frozenset({PrimitiveKind.EMBEDDING})
    due_s: float = field(default=math.inf, init=False)
    _tasks: dict[int, PooledTask] = field(default_factory=dict)
    _split: dict[int, tuple[SplitTask, OnEnd | None]] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _loads: dict[str, Load] = field(default_factory=dict)  # each lane's newest
    _own_ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(-1, -1))
    _wake: Callable[[], None] = lambda: None

    @property
    def tasks_by_lane(self) -> Mapping[str, int]:
        """How many tasks each lane has; those that wait for a lane are the manager's `held`."""
        ports = (pooled.port for pooled in list(self._tasks.values()))
        held = Counter(port.name for port in ports if port is not None)
        return {port.name: held[port.name] for port in self.ports}

    @property
    def _load(self) -> Load:
        """The rows of all lanes, and what waits for one."""
        loads = self._loads.values()
        waiting = sum(lane.waiting for lane in loads) + self.manager.held
        waiting += sum(split.rows_waiting for split, _ in self._split.values())
        return Load(sum(lane.running for lane in loads), waiting)

    def submit(
        self,
        payload: EmbedPayload,
        on_end: OnEnd,
        *,
        seconds_left: float,
        priority: Priority = Priority.NORMAL,
        tenant: str = "",
        next_request: int,
    ) -> int:
        """Embed texts, or refuse at once; returns the task's id, for `cancel`.

        They are as old as the request that comes next, `next_request`.

        `on_end` hears the one terminal event, on the thread that reads the frames. Bulk tasks
        wait for room and are refused only when too many wait; what has no result when its time is
        over ends as cancelled.

        Raises:
            Busy: they would be late; carries when to come again.
            InputError: no lane could do it within the deadline.
        """
        task_id = next(self._own_ids)
        identity = Identity(
            task_id, "embed", tenant=tenant, priority=priority, first_request=next_request
        )
        task = Task(task_id, PrimitiveKind.EMBEDDING, identity, payload, seconds_left)
        now_s = self.clock.now_s()
        ticket = self._ticket(task, payload, now_s)
        self.due_s = min(self.due_s, ticket.deadline_s)
        self._look_after_lanes()
        parts = self._parts(payload)
        if len(parts) > 1:
            if priority is not Priority.BULK:
                self.manager.check(ticket._replace(in_parts=True), now_s)
            self._begin_split(SplitTask(task, ticket.deadline_s, parts), on_end, now_s)
        elif priority is Priority.BULK:
            self.manager.hold(ticket)
            self._tasks[task_id] = PooledTask(task, payload.texts, ticket.deadline_s, on_end=on_end)
            self._place(now_s)
        else:
            lane = self.manager.admit(ticket, now_s)
            self._tasks[task_id] = PooledTask(task, payload.texts, ticket.deadline_s, on_end=on_end)
            self._send_to(lane, task_id, now_s)
        return task_id

    def close(self) -> None:
        """Fail the tasks that came through `submit`: no caller reads frames any more."""
        for task_id, pooled in list(self._tasks.items()):
            # The parts of a task end with the first of them.
            if pooled.on_end is not None and task_id in self._tasks:
                self._end(Failed(task_id, f"engine {self.name} was closed"))

    # -- EnginePort -----------------------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Take a command of the runtime in; never blocks, never refuses a task for its time."""
        match command:
            case Admit(task=task):
                self._admit(task)
            case Cancel(task_id=task_id):
                self.cancel(task_id)
            case Steer(task_id=None):
                for port in self.ports:
                    port.send(command)
            case Steer(task_id=task_id) if task_id is not None:
                self._steer(task_id, command)
            case _:
                pass

    def cancel(self, task_id: int) -> None:
        """End a task, on its lane or while it waits for one; unknown ones are ignored."""
        if task_id in self._split:
            self._end_split(task_id, Cancelled(task_id))
            self._wake()
            return
        held = self._tasks.get(task_id)
        if held is None:
            return
        if held.port is not None:
            held.port.send(Cancel(task_id))
            return
        self._end(Cancelled(task_id))
        self._wake()

    def frames(self) -> Sequence[Frame]:
        """Return what the lanes have told, under this engine's name; places what waited."""
        self._look_after_lanes()
        frames = [self._take_in(port, frame) for port in self.ports for frame in port.frames()]
        now_s = self.clock.now_s()
        self._expire(now_s)
        self._place(now_s)
        if self._events:
            frames.append(Frame(self.name, self.epoch, 0.0, tuple(self._events), load=self._load))
            self._events.clear()
        return frames

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a lane has told something."""
        self._wake = wake
        for port in self.ports:
            port.subscribe(wake)

    # -- inside -----------------------------------------------------------------------------------

    def _admit(self, task: Task) -> None:
        payload = task.payload
        if not isinstance(payload, EmbedPayload):
            message = f"{self.name} carries out no {type(payload).__name__}"
            self._events.append(Failed(task.task_id, message, is_input=True))
            self._wake()
            return
        now_s = self.clock.now_s()
        ticket, parts = self._ticket(task, payload, now_s), self._parts(payload)
        self._look_after_lanes()
        if len(parts) > 1:
            self._begin_split(SplitTask(task, ticket.deadline_s, parts), None, now_s)
            return
        try:
            self.manager.hold(ticket)
        except Busy as busy:
            self._events.append(Failed(task.task_id, str(busy)))
            self._wake()
            return
        self._tasks[task.task_id] = PooledTask(task, payload.texts, ticket.deadline_s)
        self._place(now_s)

    def _parts(self, payload: EmbedPayload) -> list[EmbedPayload]:
        tokens = [self.estimate.shape((text,), payload.in_windows).tokens for text in payload.texts]
        step_tokens = min(lane.batch_tokens_max for lane in self.manager.lanes)
        return parts_of(payload, tokens, step_tokens)

    def _begin_split(self, split: SplitTask, on_end: OnEnd | None, now_s: float) -> None:
        self._split[split.task.task_id] = split, on_end
        for _ in range(PARTS_A_LANE * len(self.ports)):
            if split.task.task_id in self._split:
                self._hold_part(split, now_s)
        self._place(now_s)

    def _hold_part(self, split: SplitTask, now_s: float) -> None:
        """Let the next part of a task wait for a lane."""
        part_id = next(self._own_ids)
        payload = split.next_part(part_id)
        if payload is None:
            return
        whole = split.task
        left_s = split.deadline_s - now_s
        task = whole._replace(task_id=part_id, payload=payload, seconds_left=left_s)
        try:
            self.manager.hold(self._ticket(task, payload, now_s))
        except Busy as busy:
            self._end_split(whole.task_id, Failed(whole.task_id, str(busy)))
            return
        on_end = partial(self._part_ended, whole.task_id)
        self._tasks[part_id] = PooledTask(
            task, payload.texts, split.deadline_s, on_end=on_end, is_part=True
        )

    def _part_ended(self, task_id: int, event: Event) -> None:
        if task_id not in self._split:
            return  # an earlier part has ended it
        split, _ = self._split[task_id]
        end = split.take(event)
        if end is None:
            self._hold_part(split, self.clock.now_s())
        else:
            self._end_split(task_id, end)

    def _end_split(self, task_id: int, end: Event) -> None:
        """End a task in parts, and the parts that still run."""
        split, on_end = self._split.pop(task_id)
        for part_id in split.begun:
            self.cancel(part_id)
        if on_end is not None:
            on_end(end)
        else:
            self._events.append(end)

    def _expire(self, now_s: float) -> None:
        """End what came through `submit` and has no time left."""
        if now_s <= self.due_s:
            return
        for task_id, (split, on_end) in list(self._split.items()):
            if on_end is not None and now_s > split.deadline_s:
                self._end_split(task_id, Cancelled(task_id))
        for task_id, pooled in list(self._tasks.items()):
            if task_id in self._tasks and pooled.is_timed and now_s > pooled.deadline_s:
                self._end_late(task_id, pooled.port, now_s)
        whole = (pooled.deadline_s for pooled in self._tasks.values() if pooled.is_timed)
        in_parts = (split.deadline_s for split, end in self._split.values() if end is not None)
        self.due_s = min(itertools.chain(whole, in_parts), default=math.inf)

    def _end_late(self, task_id: int, port: EnginePort | None, now_s: float) -> None:
        """End a task without its lane, which may be at it still, or be away."""
        if port is not None:
            port.send(Cancel(task_id))
            if self.is_up(port):  # it was too slow, which its books must learn
                self.manager.answered(task_id, now_s)
        self._end(Cancelled(task_id))

    def _steer(self, task_id: int, command: Steer) -> None:
        parts = self._split[task_id][0].begun if task_id in self._split else (task_id,)
        for part_id in parts:
            pooled = self._tasks.get(part_id)
            if pooled is not None and pooled.port is not None:
                pooled.port.send(command._replace(task_id=part_id))

    def _ticket(self, task: Task, payload: EmbedPayload, now_s: float) -> Ticket:
        shape = self.estimate.shape(payload.texts, payload.in_windows)
        deadline_s = now_s + task.seconds_left
        priority = task.identity.priority
        return Ticket(task.task_id, shape, payload.rows, deadline_s, priority, now_s)

    def _look_after_lanes(self) -> None:
        up = {port.name: self.is_up(port) for port in self.ports}
        for name, is_up in up.items():
            self.manager.set_up(name, is_up=is_up or not any(up.values()))

    def _place(self, now_s: float) -> None:
        for ticket, lane in self.manager.place_held(now_s):
            self._send_to(lane, ticket.id, now_s)

    def _send_to(self, lane: str, task_id: int, now_s: float) -> None:
        pooled = self._tasks[task_id]
        pooled.port = next(port for port in self.ports if port.name == lane)
        # It may have waited here: what is left is less than when it was admitted.
        task = pooled.task._replace(seconds_left=pooled.deadline_s - now_s)
        pooled.port.send(Admit(task, report_every=0))

    def _take_in(self, port: EnginePort, frame: Frame) -> Frame:
        told = tuple(event for event in frame.events if not self._end(event))
        done = frame.features
        shape = BatchShape(done.get("tokens", 0.0), done.get("squares", 0.0))
        if done.get("tokens_max"):
            self.manager.bound_steps(port.name, done["tokens_max"])
        self.estimate.learn_padding(shape.tokens, done.get("unpadded", 0.0))
        self.manager.step_ended(port.name, shape, frame.seconds, self.clock.now_s())
        self._loads[port.name] = frame.load
        load = self._load
        return frame._replace(lane=self.name, epoch=self.epoch, events=told, load=load, number=0)

    def _end(self, event: Event) -> bool:
        """Free a task's place and learn from it; False = the event must go to the runtime."""
        if not isinstance(event, TERMINAL):
            return False
        if event.task_id not in self._tasks:
            return True  # it was answered here before its lane did
        pooled = self._tasks.pop(event.task_id)
        if isinstance(event, Done):
            self.manager.answered(event.task_id, self.clock.now_s())
        else:
            self.manager.end(event.task_id)
        if isinstance(event, Done) and isinstance(event.result, Vectors):
            self._learn(pooled, event.result)
        if pooled.on_end is not None:
            pooled.on_end(event)
            return True
        if pooled.port is None:  # it never got to a lane whose frame would tell
            self._events.append(event)
        return False

    def _learn(self, pooled: PooledTask, vectors: Vectors) -> None:
        if not vectors.truncated and not vectors.windowed:
            chars = sum(map(len, pooled.texts))
            self.estimate.learn(chars, len(pooled.texts), vectors.tokens)
