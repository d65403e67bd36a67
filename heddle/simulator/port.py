"""A lane on virtual time: a real SteppedEngine behind an EnginePort, with a fallible link."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from heddle.core.commands import Admit, Command
from heddle.core.credits import Credits
from heddle.core.frames import TERMINAL, Done, Event, Failed, Frame
from heddle.core.ports import SteppedEngine
from heddle.core.primitives import PrimitiveKind
from heddle.runtime.supervision import LANE_LOST
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.faults import NO_FAULTS, Fault, FaultRates, FaultSource
from heddle.simulator.timeline import Timeline

BuildEngine = Callable[[str, int, SimulatedDevice], SteppedEngine]
"""Builds an engine from its name, epoch and device."""

STEP_S_MIN = 1e-5  # a step that only hands events over takes time too
SLOWNESS = 20.0
HEARTBEAT_S = 0.5
NOTICED_S_MAX = 2.0  # a dead lane is noticed at the latest after so long
RESTART_S = 0.3


class LaneWatcher(Protocol):
    """Hears what crosses the border of a lane, whether it arrives or not."""

    def sent(self, lane: str, command: Command) -> None:
        """Hear of a command that the runtime sends."""
        ...

    def stepped(self, lane: str, frame: Frame) -> None:
        """Hear what a step has made that begins now."""
        ...


@dataclass(frozen=True, slots=True)
class SimulatedLane:
    """What a port is made of."""

    name: str
    build: BuildEngine
    credits_total: int
    latency_s: float = 1e-4
    rates: FaultRates = NO_FAULTS


@dataclass(slots=True)
class SimulatedPort:
    """An EnginePort whose engine steps on the timeline.

    A step that the engine measures as s seconds long occupies the lane for s virtual seconds;
    then its frame travels for `latency_s`. Commands that arrive during a step are applied after
    it. As in a process host: frames are numbered from 1 in each epoch; a lane that died is
    noticed after a while, then one frame without a number, made on the runtime's side, fails
    what was in flight, and what is sent from then on waits for the next epoch.

    Mutates: itself, from actions on the timeline.
    """

    lane: SimulatedLane
    timeline: Timeline
    draws: random.Random
    watcher: LaneWatcher | None = None
    name: str = field(init=False)
    kinds: frozenset[PrimitiveKind] = field(init=False)
    credits: Credits = field(init=False)
    epoch: int = 1
    engine: SteppedEngine | None = field(init=False)
    faults: FaultSource = field(init=False)
    device: SimulatedDevice = field(init=False)
    _wake: Callable[[], None] = field(default=lambda: None)
    _inbox: list[Command] = field(default_factory=list)
    _arrived: list[Frame] = field(default_factory=list)
    _live: dict[int, None] = field(default_factory=dict)  # in order of sending
    _number: int = 0
    _is_stepping: bool = False

    def __post_init__(self) -> None:
        self.name = self.lane.name
        self.credits = Credits(self.lane.credits_total)
        self.faults = FaultSource(self.lane.rates, random.Random(self.draws.random()))
        self.device = SimulatedDevice(self.timeline, random.Random(self.draws.random()))
        self.engine = self.lane.build(self.name, self.epoch, self.device)
        self.kinds = self.engine.kinds

    # -- the runtime's side -------------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Put a command on its way to the lane."""
        if self.watcher is not None:
            self.watcher.sent(self.name, command)
        if isinstance(command, Admit):
            self._live[command.task.task_id] = None
        self.timeline.after(self.lane.latency_s, partial(self._take_in, self.epoch, command))

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived, oldest first."""
        frames, self._arrived = self._arrived, []
        return frames

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever frames have arrived."""
        self._wake = wake

    # -- the lane's side ----------------------------------------------------------------------

    def _take_in(self, epoch: int, command: Command) -> None:
        if epoch == self.epoch:  # else it was meant for a lane that is gone
            self._inbox.append(command)
            self._turn()

    def _turn(self) -> None:
        engine = self.engine
        if engine is None or self._is_stepping:
            return
        for command in self._inbox:
            engine.apply(command)
        self._inbox.clear()
        if engine.has_work:
            self._step(engine)

    def _step(self, engine: SteppedEngine) -> None:
        fault = self.faults.next()
        self.device.slowness = SLOWNESS if fault is Fault.SLOW_STEP else 1.0
        self.device.is_broken = fault is Fault.BREAK_STEP
        frame = engine.step(self.timeline.now_s(), float("inf"))
        if self.watcher is not None:
            self.watcher.stepped(self.name, frame)
        seconds = max(STEP_S_MIN, self.device.take_spent_s())
        self._is_stepping = True
        if fault is Fault.LOSE_LANE:
            self.timeline.after(seconds * self.draws.random(), self._die)
        else:
            self.timeline.after(seconds, partial(self._end_step, frame, fault))

    def _end_step(self, frame: Frame, fault: Fault | None) -> None:
        self._is_stepping = False
        if fault is Fault.FAIL_TASK:
            frame = frame._replace(events=_with_failure(frame.events))
        if fault is Fault.LOSE_FRAME:
            self._number += 1
            # The next sign of life shows the gap, even if the lane has nothing more to say.
            self.timeline.after(HEARTBEAT_S, partial(self._beat, self.epoch, self._number))
        else:
            self._post(frame)
        if fault is Fault.REPEAT_FRAME:
            self._travel(frame._replace(number=self._number))
        self._turn()

    def _beat(self, epoch: int, number: int) -> None:
        if self.engine is not None and (epoch, number) == (self.epoch, self._number):
            self._post(Frame(self.name, self.epoch, 0.0, ()))

    def _post(self, frame: Frame) -> None:
        self._number += 1
        self._travel(frame._replace(number=self._number))

    def _travel(self, frame: Frame) -> None:
        self.timeline.after(self.lane.latency_s, partial(self._arrive, frame))

    def _arrive(self, frame: Frame) -> None:
        if frame.epoch != self.epoch:
            return  # it was on its way when the lane was given up
        for event in frame.events:
            if isinstance(event, TERMINAL):
                self._live.pop(event.task_id, None)
        self._arrived.append(frame)
        self._wake()

    # -- losing the lane ----------------------------------------------------------------------

    def _die(self) -> None:
        self.engine = None
        self.timeline.after(NOTICED_S_MAX * self.draws.random(), self._notice)

    def _notice(self) -> None:
        message = f"{LANE_LOST} lane {self.name} was lost; restarted as epoch {self.epoch + 1}"
        failed = tuple(Failed(task_id, message) for task_id in self._live)
        self._live.clear()
        self._inbox.clear()
        self._arrived.append(Frame(self.name, self.epoch, 0.0, failed))
        self.epoch += 1
        self._number = 0
        self.timeline.after(RESTART_S, self._restart)
        self._wake()

    def _restart(self) -> None:
        self._is_stepping = False
        self.device.take_spent_s()
        self.engine = self.lane.build(self.name, self.epoch, self.device)
        self._turn()


def _with_failure(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Turn the last Done into a Failed: one task fails, the others go on."""
    for at in reversed(range(len(events))):
        if isinstance(events[at], Done):
            failed = Failed(events[at].task_id, "the simulated engine failed this task")
            return (*events[:at], failed, *events[at + 1 :])
    return events
