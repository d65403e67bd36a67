"""The runtime's end of one engine inside a lane."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from heddle.core.commands import Command
from heddle.core.credits import Credits
from heddle.core.frames import Frame
from heddle.core.primitives import PrimitiveKind
from heddle.hosts.lane_spec import EngineSpec
from heddle.hosts.live_tasks import LiveTasks
from heddle.runtime.supervision import LaneHealth

_log = logging.getLogger(__name__)


class Carrier(Protocol):
    """What a port needs of the lane that carries its engine."""

    @property
    def epoch(self) -> int:
        """How often the lane was started, counting from 1."""
        ...

    @property
    def health(self) -> LaneHealth:
        """The lane's state."""
        ...

    def send(self, engine: int, command: Command) -> None:
        """Send a command to the engine with this index; never blocks."""
        ...


class ProcessPort:
    """EnginePort of one engine inside a lane.

    When the lane is lost, one last frame of the old epoch, made here and not numbered, fails what
    was in flight; from then on `epoch` is the next one, and so is that of the frames to come.
    """

    def __init__(self, lane: Carrier, index: int, spec: EngineSpec) -> None:
        self._lane = lane
        self._index = index
        self._spec = spec
        self._credits = Credits(spec.credits_total)
        self._frames: deque[Frame] = deque()
        self._wake: Callable[[], None] = _nobody
        self.live = LiveTasks()

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._spec.name

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return self._spec.kinds

    @property
    def credits(self) -> Credits:
        """Rows it may hold at once."""
        return self._credits

    @property
    def epoch(self) -> int:
        """The epoch that a command sent now belongs to; grows with every restart."""
        return self._lane.epoch

    @property
    def health(self) -> LaneHealth:
        """The state of the lane that carries this engine."""
        return self._lane.health

    def send(self, command: Command) -> None:
        """Queue a command; never blocks. Commands for ended tasks and void leases are dropped."""
        self._lane.send(self._index, command)

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived, oldest first."""
        waiting = self._frames
        return [waiting.popleft() for _ in range(len(waiting))]

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from the lane's thread, whenever frames have arrived."""
        self._wake = wake
        if self._frames:
            wake()

    def deliver(self, frame: Frame) -> None:
        """Append a frame; the caller wakes the subscriber afterwards."""
        self.live.answered(frame.events)
        self._frames.append(frame)

    def wake(self) -> None:
        """Tell the subscriber that frames wait."""
        try:
            self._wake()
        except RuntimeError:  # the subscriber's event loop is closed
            _log.debug("engine %s: nobody reads its frames any more", self.name)


def _nobody() -> None:
    """Stand in for a subscriber until there is one."""
