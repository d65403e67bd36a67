"""A lane whose engines share one core on virtual time; it can be lost, with its node."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from heddle.core.commands import TURN_S, Admit, Command, Steer
from heddle.core.credits import Credits
from heddle.core.frames import TERMINAL, Failed, Frame
from heddle.core.ports import SteppedEngine
from heddle.core.primitives import PrimitiveKind
from heddle.runtime.supervision import LANE_LOST
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.timeline import Timeline

STEP_S_MIN: Final = 1e-5  # a step that only reports events takes time too
# A lane without a sign of life is lost after this time. (docs/guide/cluster.md)
NOTICED_S: Final = 2.0


@dataclass(slots=True, eq=False)
class CorePort:
    """An EnginePort of an engine on a shared core. Mutates: itself, from actions on the timeline.

    `worked_s` is how long its engine's steps took in all [s]. `rebuild` makes the engine of an
    epoch; None = the lane is never lost.
    """

    core: "SharedCore"
    engine: SteppedEngine
    device: SimulatedDevice
    credits: Credits
    rebuild: Callable[[int], SteppedEngine] | None = None
    name: str = field(init=False)
    kinds: frozenset[PrimitiveKind] = field(init=False)
    epoch: int = 1
    worked_s: float = 0.0
    inbox: list[Command] = field(default_factory=list)
    _wake: Callable[[], None] = field(default=lambda: None)
    _arrived: list[Frame] = field(default_factory=list)
    _number: int = 0
    _live: dict[int, None] = field(default_factory=dict)  # in order of sending

    def __post_init__(self) -> None:
        self.name, self.kinds = self.engine.name, self.engine.kinds

    def send(self, command: Command) -> None:
        """Put a command on its way to the engine."""
        if isinstance(command, Admit):
            self._live[command.task.task_id] = None
        take_in = partial(self._take_in, self.epoch, command)
        self.core.timeline.after(self.core.latency_s, take_in)

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived, oldest first."""
        frames, self._arrived = self._arrived, []
        return frames

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a frame has arrived."""
        self._wake = wake

    def post(self, frame: Frame) -> None:
        """Put the frame of a step on its way to the runtime."""
        self._number += 1
        numbered = frame._replace(number=self._number)
        self.core.timeline.after(self.core.latency_s, partial(self._arrive, numbered))

    def lose_epoch(self) -> None:
        """Fail what is in flight, and begin the next epoch, whose engine isn't there yet."""
        message = f"{LANE_LOST} lane {self.name} was lost with its node"
        failed = tuple(Failed(task_id, message) for task_id in self._live)
        self._live.clear()
        self.inbox.clear()
        self._arrived.append(Frame(self.name, self.epoch, 0.0, failed))
        self.epoch += 1
        self._number = 0
        self._wake()

    def restart(self) -> None:
        """Have the engine of this epoch."""
        assert self.rebuild is not None, f"the lane of {self.name} can't be lost"
        self.device.take_spent_s()
        self.engine = self.rebuild(self.epoch)

    def _take_in(self, epoch: int, command: Command) -> None:
        if epoch == self.epoch:  # else it was meant for a lane that is gone
            self.inbox.append(command)
            self.core.turn()

    def _arrive(self, frame: Frame) -> None:
        if frame.epoch != self.epoch:
            return  # it was on its way when the lane was given up
        for event in frame.events:
            if isinstance(event, TERMINAL):
                self._live.pop(event.task_id, None)
        self._arrived.append(frame)
        if frame.events:  # the others say only what steps cost: the next cycle reads them as well
            self._wake()


@dataclass(slots=True, eq=False)
class SharedCore:
    """Steps its engines one after the other, each for the time that its device has spent.

    As in a lane's process: commands are applied between two steps, and engines that have work
    take turns. All tasks are of one class here.

    Args:
        timeline: the virtual time.
        latency_s: how long a message takes, either way [s].

    Mutates: the engines, from actions on the timeline.
    """

    timeline: Timeline
    latency_s: float
    ports: list[CorePort] = field(default_factory=list)
    _is_busy: bool = False
    _last: int = -1
    _is_down: bool = False
    _lives: int = 1

    def add(
        self,
        engine: SteppedEngine,
        device: SimulatedDevice,
        credits_total: int,
        rebuild: Callable[[int], SteppedEngine] | None = None,
    ) -> CorePort:
        """Put an engine on this core and return its port."""
        port = CorePort(self, engine, device, Credits(credits_total), rebuild)
        self.ports.append(port)
        return port

    def lose(self, restart_s: float) -> None:
        """Lose the node of this core now: what its engines hold is gone.

        The runtime hears of it after `NOTICED_S`, and the engines are back `restart_s` later [s]. A
        node that is lost already stays so for as long as it would have.
        """
        if self._is_down:
            return
        self._is_down, self._is_busy = True, False
        self._lives += 1
        self.timeline.after(NOTICED_S, self._notice)
        self.timeline.after(NOTICED_S + restart_s, self._restart)

    def turn(self) -> None:
        """Apply what has arrived, and step the next engine with work; none while one steps."""
        if self._is_busy or self._is_down:
            return
        for port in self.ports:
            for command in port.inbox:
                port.engine.apply(self._in_turns(command))
            port.inbox.clear()
        count = len(self.ports)
        for place in range(self._last + 1, self._last + 1 + count):
            if self.ports[place % count].engine.has_work:
                self._last = place % count
                self._step(self.ports[self._last])
                return

    def _in_turns(self, command: Command) -> Command:
        """Return a command as the host of a lane with these engines hands it on."""
        if isinstance(command, Steer) and len(self.ports) > 1:
            return command.at_most(TURN_S)
        return command

    def _step(self, port: CorePort) -> None:
        frame = port.engine.step(self.timeline.now_s(), float("inf"))
        seconds = max(STEP_S_MIN, port.device.take_spent_s())
        port.worked_s += seconds
        self._is_busy = True
        self.timeline.after(seconds, partial(self._end, port, frame, self._lives))

    def _end(self, port: CorePort, frame: Frame, life: int) -> None:
        if life != self._lives:
            return  # the node was lost during the step
        self._is_busy = False
        port.post(frame)
        self.turn()

    def _notice(self) -> None:
        for port in self.ports:
            port.lose_epoch()

    def _restart(self) -> None:
        for port in self.ports:
            port.restart()
        self._is_down = False
        self.turn()
