"""A lane on virtual time: a real SteppedEngine behind an EnginePort, with a fallible link."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from heddle.core.commands import Admit, Command
from heddle.core.credits import Credits
from heddle.core.frames import TERMINAL, Done, Event, Failed, Frame
from heddle.core.ports import SteppedEngine
from heddle.core.primitives import PrimitiveKind
from heddle.runtime.supervision import LANE_LOST, refused_message
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.faults import (
    LANE_FAULTS,
    NO_FAULTS,
    Fault,
    FaultRates,
    FaultSource,
    Strike,
    strikes_at,
)
from heddle.simulator.timeline import Timeline

BuildEngine = Callable[[str, int, SimulatedDevice], SteppedEngine]
"""Builds an engine from its name, epoch and device."""

DEADLY: Final = frozenset({Fault.LOSE_LANE, Fault.SLOW_START, Fault.GIVE_UP})
STEP_S_MIN = 1e-5  # a step that only hands events over takes time too
SLOWNESS = 20.0
DELAY_S = 0.05
HEARTBEAT_S = 0.5
NOTICED_S_MAX = 2.0  # the longest time until a dead lane is noticed
RESTART_S = 0.3
SLOW_START_S = 20 * RESTART_S


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
    """What a port is made of. `strikes` are the faults that may strike; None = all."""

    name: str
    build: BuildEngine
    credits_total: int
    latency_s: float = 1e-4
    rates: FaultRates = NO_FAULTS
    strikes: frozenset[Strike] | None = None


@dataclass(slots=True)
class SimulatedPort:
    """An EnginePort whose engine steps on the timeline.

    A step that the engine measures as s seconds long occupies the lane for s virtual seconds;
    then its frame travels for `latency_s`. Commands that arrive during a step are applied after
    it. As in a process host: frames are numbered from 1 in each epoch; a lane that died is
    noticed after a while, then one frame without a number, made on the runtime's side, fails
    what was in flight, and what is sent from then on waits for the next epoch. A lane that is
    taken for dead goes on for a while, and its frames of the old epoch still arrive.

    `place` names it in strikes, by default as the lane.

    Mutates: itself, from actions on the timeline.
    """

    lane: SimulatedLane
    timeline: Timeline
    draws: random.Random
    watcher: LaneWatcher | None = None
    place: str = ""
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
    _is_closed: bool = False
    _refusal: str = ""
    _start_s: float = RESTART_S
    _link_free_s: float = 0.0

    def __post_init__(self) -> None:
        self.name = self.lane.name
        self.credits = Credits(self.lane.credits_total)
        self.place = self.place or self.name
        allowed = strikes_at(self.place, self.lane.strikes)
        faults = random.Random(self.draws.random())
        self.faults = FaultSource(self.lane.rates, faults, LANE_FAULTS, allowed)
        self.device = SimulatedDevice(self.timeline, random.Random(self.draws.random()))
        self.engine = self.lane.build(self.name, self.epoch, self.device)
        self.kinds = self.engine.kinds

    # -- the runtime's side -------------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Put a command on its way to the lane."""
        if self.watcher is not None:
            self.watcher.sent(self.name, command)
        if isinstance(command, Admit):
            if self._refusal:
                failed = (Failed(command.task.task_id, self._refusal),)
                self._arrived.append(Frame(self.name, self.epoch, 0.0, failed))
                self.timeline.after(0.0, self._wake)
                return
            self._live[command.task.task_id] = None
        self.timeline.after(self.lane.latency_s, partial(self._take_in, self.epoch, command))

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived, oldest first."""
        frames, self._arrived = self._arrived, []
        return frames

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever frames have arrived."""
        self._wake = wake

    def close(self) -> None:
        """End the lane with the server: nothing that is planned for it happens any more."""
        self.engine, self._is_closed = None, True

    @property
    def is_given_up(self) -> bool:
        """Whether the lane is down for good."""
        return bool(self._refusal)

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
        if fault in DEADLY:
            self._start_s = SLOW_START_S if fault is Fault.SLOW_START else RESTART_S
            is_last = fault is Fault.GIVE_UP
            self.timeline.after(seconds * self.draws.random(), partial(self._die, is_last))
        elif fault is Fault.HANG:
            self.timeline.after(NOTICED_S_MAX, self._notice)
            self.engine = None
        else:
            self.timeline.after(seconds, partial(self._end_step, frame, fault))

    def _end_step(self, frame: Frame, fault: Fault | None) -> None:
        if self._is_closed:
            return
        self._is_stepping = False
        if fault is Fault.FAIL_TASK:
            frame = frame._replace(events=_with_failure(frame.events))
        if fault is Fault.DELAY_FRAME:
            self._link_free_s = self.timeline.now_s() + DELAY_S
        if fault is Fault.FALSE_DEATH:
            self._misjudge(frame)
            return
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
        at_s = max(self.timeline.now_s() + self.lane.latency_s, self._link_free_s)
        self._link_free_s = at_s
        self.timeline.at(at_s, partial(self._arrive, frame))

    def _arrive(self, frame: Frame) -> None:
        if frame.epoch != self.epoch or self._is_closed:
            return  # it was on its way when the lane was given up
        for event in frame.events:
            if isinstance(event, TERMINAL):
                self._live.pop(event.task_id, None)
        self._arrived.append(frame)
        self._wake()

    # -- losing the lane ----------------------------------------------------------------------

    def _misjudge(self, frame: Frame) -> None:
        """Take the lane for dead while it goes on: its later frames are of an old epoch."""
        engine, epoch, number = self.engine, self.epoch, self._number
        self._notice()
        self.engine = None
        if engine is not None:
            self._go_on(engine, frame._replace(epoch=epoch, number=number + 1))

    def _go_on(self, engine: SteppedEngine, frame: Frame) -> None:
        """Deliver a frame of an old epoch, and step that lane again until it has been killed."""
        if self.engine is not None or self._is_closed or self._refusal:
            return
        self._arrived.append(frame)
        self._wake()
        if engine.has_work:
            told = engine.step(self.timeline.now_s(), float("inf"))
            seconds = max(STEP_S_MIN, self.device.take_spent_s())
            told = told._replace(epoch=frame.epoch, number=frame.number + 1)
            self.timeline.after(seconds, partial(self._go_on, engine, told))

    def _die(self, is_last: bool) -> None:
        self.engine = None
        notice = self._leave_down if is_last else self._notice
        self.timeline.after(NOTICED_S_MAX * self.draws.random(), notice)

    def _leave_down(self) -> None:
        """Notice that the lane is gone, and start it no more."""
        if self._is_closed:
            return
        message = f"{LANE_LOST} lane {self.name} was lost; given up after {self.epoch} epochs"
        self._fail_all(message)
        self._refusal = refused_message(message)
        self._wake()

    def _notice(self) -> None:
        if self._is_closed:
            return
        self._fail_all(
            f"{LANE_LOST} lane {self.name} was lost; restarted as epoch {self.epoch + 1}"
        )
        self.epoch += 1
        self._number = 0
        self.timeline.after(self._start_s, self._restart)
        self._wake()

    def _fail_all(self, message: str) -> None:
        failed = tuple(Failed(task_id, message) for task_id in self._live)
        self._live.clear()
        self._inbox.clear()
        self._arrived.append(Frame(self.name, self.epoch, 0.0, failed))

    def _restart(self) -> None:
        if self._is_closed:
            return
        self._start_s = RESTART_S
        self._is_stepping = False
        self.device.take_spent_s()
        self.engine = self.lane.build(self.name, self.epoch, self.device)
        self._turn()


def _with_failure(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Turn the last Done into a Failed: one task fails, the others go on.

    As in engines, that is the step's only event of it.
    """
    done = [event.task_id for event in events if isinstance(event, Done)]
    if not done:
        return events
    told = tuple(event for event in events if event.task_id != done[-1])
    return (*told, Failed(done[-1], "the simulated engine failed this task"))
