"""Equal lanes behind one port: a task goes to the one that is through with it first. (Teola §5)"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from heddle.core.commands import Admit, Cancel, Command, LeaveKv, LoadKv, Steer
from heddle.core.credits import Credits
from heddle.core.frames import TERMINAL, Done, Event, Failed, Frame, Load
from heddle.core.ports import Clock, EnginePort
from heddle.core.primitives import PrimitiveKind

SMOOTHING: Final = 0.1
HEDGED: Final = frozenset({PrimitiveKind.SEARCHING})
HEDGE_AFTER: Final = 4.0  # times as long as a search usually takes
HEDGE_S_MIN: Final = 0.05
HEDGE_SHARE: Final = 0.05  # of all searches, at most; but always one
FAILED_MAX: Final = 1_024  # requests that a lane has failed, the newest


@dataclass(slots=True)
class _Lane:
    """The rows that a lane has under way, and how long a row usually takes there [s]."""

    port: EnginePort
    rows: int = 0
    row_s: float | None = None
    last: Frame | None = None


@dataclass(slots=True, eq=False)
class _Task:
    """A task, and the lanes that have it: the first reports its progress, the others are hedges."""

    admit: Admit
    rows: int
    lanes: list[int]
    sent_s: float
    is_cancelled: bool = False


@dataclass(slots=True, eq=False)
class ReplicatedPort:
    """EnginePort over equal lanes; the runtime sees one engine.

    A lane's wait is its rows under way times how long a row takes there. A lane that is down gets
    nothing while another is up, and what a request has failed at on one lane goes to another.

    A search that takes four times as long as usual is given to a second lane as well, if that one
    would be through with it at once; the first answer counts, and the other is cancelled. So a lane
    that has stalled holds no search up until it is found dead. At most one search in twenty is.

    Args:
        name: the engine's name, as the runtime sees it.
        ports: the lanes; each can carry out everything.
        is_up: whether a lane can work right now; where none can, one that comes back is waited for.
        clock: the runtime's.

    Raises:
        ValueError: there is no lane.
    """

    name: str
    ports: Sequence[EnginePort]
    is_up: Callable[[EnginePort], bool]
    clock: Clock
    credits: Credits = field(init=False)
    hedges: int = 0
    _lanes: list[_Lane] = field(init=False)
    _tasks: dict[int, _Task] = field(default_factory=dict)
    _failed: dict[int, int] = field(default_factory=dict)  # request -> the lane that failed it
    _searches: int = 0

    def __post_init__(self) -> None:
        if not self.ports:
            raise ValueError(f"{self.name} needs a lane")
        self._lanes = [_Lane(port) for port in self.ports]
        self.credits = Credits(sum(port.credits.total for port in self.ports))

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives that the lanes carry out."""
        return self.ports[0].kinds

    @property
    def epoch(self) -> int:
        """Grows with every restart of a lane."""
        return sum(port.epoch for port in self.ports)

    @property
    def tasks_by_lane(self) -> Mapping[str, int]:
        """How many tasks each lane has; one that is hedged counts on each of its lanes."""
        held = Counter(n for task in list(self._tasks.values()) for n in task.lanes)
        return {port.name: held[n] for n, port in enumerate(self.ports)}

    @property
    def due_s(self) -> float:
        """When the next search should be given to a second lane [s].

        inf = none waits for that, or no lane is idle: the frame of one that becomes so is read.
        """
        if not self._idle():
            return math.inf
        alone = [task for task in self._tasks.values() if self._may_hedge(task)]
        return min((self._hedge_s(task) for task in alone), default=math.inf)

    def send(self, command: Command) -> None:
        """Pass a command on to the lane that it concerns; never blocks."""
        match command:
            case Admit():
                self._admit(command)
            case Cancel(task_id=task_id) if task_id in self._tasks:
                self._tasks[task_id].is_cancelled = True
                self._to_lanes(task_id, command)
            case Steer(task_id=int() as task_id):
                self._to_lanes(task_id, command)
            case Steer() | LoadKv() | LeaveKv():  # where the prompt will go isn't known yet
                for lane in self._lanes:
                    lane.port.send(command)

    def frames(self) -> Sequence[Frame]:
        """Return what the lanes have told, under this engine's name; hedges what is late."""
        frames = [
            self._take_in(number, frame)
            for number, lane in enumerate(self._lanes)
            for frame in lane.port.frames()
        ]
        self._hedge(self.clock.now_s())
        return frames

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a lane has told something."""
        for lane in self._lanes:
            lane.port.subscribe(wake)

    # -- commands ---------------------------------------------------------------------------------

    def _admit(self, command: Admit) -> None:
        task = command.task
        rows = max(1, task.payload.rows)
        number = self._best(task.identity.request_id, rows)
        self._searches += task.kind in HEDGED
        self._tasks[task.task_id] = _Task(command, rows, [], self.clock.now_s())
        self._give(number, self._tasks[task.task_id])

    def _best(self, request_id: int, rows: int) -> int:
        """Return the lane with the least predicted wait, the first of several."""
        every = range(len(self._lanes))
        up = [n for n in every if self.is_up(self._lanes[n].port)] or list(every)
        failed = self._failed.get(request_id)
        able = [n for n in up if n != failed] or up
        return min(able, key=lambda n: (self._wait_s(n, rows), n))

    def _wait_s(self, number: int, rows: int) -> float:
        known = [lane.row_s for lane in self._lanes if lane.row_s is not None]
        usual_s = sum(known) / len(known) if known else 1.0
        lane = self._lanes[number]
        return (lane.rows + rows) * (usual_s if lane.row_s is None else lane.row_s)

    def _give(self, number: int, task: _Task) -> None:
        task.lanes.append(number)
        self._lanes[number].rows += task.rows
        self._lanes[number].port.send(task.admit)

    def _to_lanes(self, task_id: int, command: Command) -> None:
        task = self._tasks.get(task_id)
        for number in () if task is None else task.lanes:
            self._lanes[number].port.send(command)

    # -- hedges -----------------------------------------------------------------------------------

    def _may_hedge(self, task: _Task) -> bool:
        is_within = self.hedges < max(1.0, HEDGE_SHARE * self._searches)
        is_alone = len(task.lanes) == 1 and not task.is_cancelled
        return is_alone and is_within and task.admit.task.kind in HEDGED

    def _hedge_s(self, task: _Task) -> float:
        """Return when a task counts as late [s]."""
        lane = self._lanes[task.lanes[0]]
        usual_s = 0.0 if lane.row_s is None else lane.row_s * task.rows
        return task.sent_s + max(HEDGE_S_MIN, HEDGE_AFTER * usual_s)

    def _hedge(self, now_s: float) -> None:
        for task in [task for task in self._tasks.values() if self._may_hedge(task)]:
            if now_s < self._hedge_s(task) or not self._may_hedge(task):
                continue
            if idle := self._idle():
                self.hedges += 1
                self._give(idle[0], task)

    def _idle(self) -> list[int]:
        """Return the lanes that are up and have nothing under way."""
        every = enumerate(self._lanes)
        return [n for n, lane in every if not lane.rows and self.is_up(lane.port)]

    # -- frames -----------------------------------------------------------------------------------

    def _take_in(self, number: int, frame: Frame) -> Frame:
        told = [self._answer(number, event) for event in frame.events]
        self._lanes[number].last = frame
        return self._whole(frame, tuple(event for event in told if event is not None))

    def _answer(self, number: int, event: Event) -> Event | None:
        """Take an event in; return what the runtime is to hear of it."""
        task = self._tasks.get(event.task_id)
        if task is None or number not in task.lanes:
            return None
        if not isinstance(event, TERMINAL):
            return event if task.lanes[0] == number else None
        task.lanes.remove(number)
        lane = self._lanes[number]
        lane.rows -= task.rows
        if isinstance(event, Failed):
            self._note_failure(task.admit.task.identity.request_id, number)
            if task.lanes and not event.is_input:
                return None  # the other lane may still answer
        if isinstance(event, Done):
            self._learn(lane, task)
        del self._tasks[event.task_id]
        for other in task.lanes:
            self._lanes[other].rows -= task.rows
            self._lanes[other].port.send(Cancel(event.task_id))
        return event

    def _learn(self, lane: _Lane, task: _Task) -> None:
        row_s = (self.clock.now_s() - task.sent_s) / task.rows
        lane.row_s = row_s if lane.row_s is None else lane.row_s + SMOOTHING * (row_s - lane.row_s)

    def _note_failure(self, request_id: int, number: int) -> None:
        self._failed.pop(request_id, None)
        self._failed[request_id] = number
        while len(self._failed) > FAILED_MAX:
            del self._failed[next(iter(self._failed))]

    def _whole(self, frame: Frame, events: tuple[Event, ...]) -> Frame:
        """Return a lane's frame under this engine's name, with the state of all of them."""
        last = [lane.last for lane in self._lanes if lane.last is not None]
        recalls = [part.recall for part in last if part.recall is not None]
        return frame._replace(
            lane=self.name,
            epoch=self.epoch,
            events=events,
            number=0,
            load=Load(
                running=sum(part.load.running for part in last),
                waiting=sum(part.load.waiting for part in last),
            ),
            recall=min(recalls, key=lambda estimate: estimate.recall, default=None),
            notes=tuple(dict.fromkeys(note for part in last for note in part.notes)),
            gauges=_worst([part.gauges for part in last]),
        )


def _worst(parts: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Return each gauge of the lane that is worst off; all have the same index."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: min(part[name] for part in parts if name in part) for name in names}
