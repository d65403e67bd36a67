"""Tools on the virtual clock: each call takes the same time, and any number run side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from heddle.core.commands import Admit, Command
from heddle.core.credits import Credits
from heddle.core.frames import Done, Frame
from heddle.core.payloads import ToolPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import ToolResult
from heddle.simulator.timeline import Timeline

CALLS_MAX = 1 << 12


@dataclass(slots=True, eq=False)
class DelayPort:
    """An EnginePort whose functions answer after `delay_s`.

    Mutates: itself, from actions on the timeline.
    """

    timeline: Timeline
    delay_s: float
    name: str = "tools"
    kinds: frozenset[PrimitiveKind] = frozenset({PrimitiveKind.TOOL})
    credits: Credits = field(default_factory=lambda: Credits(CALLS_MAX))
    epoch: int = 1
    _wake: Callable[[], None] = field(default=lambda: None)
    _arrived: list[Frame] = field(default_factory=list)
    _number: int = 0

    def send(self, command: Command) -> None:
        """Begin a call."""
        if isinstance(command, Admit):
            self.timeline.after(self.delay_s, partial(self._end, command))

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived."""
        frames, self._arrived = self._arrived, []
        return frames

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a call has ended."""
        self._wake = wake

    def _end(self, command: Admit) -> None:
        payload = command.task.payload
        assert isinstance(payload, ToolPayload), f"{payload!r} is no call of a tool"
        self._number += 1
        done = Done(command.task.task_id, ToolResult(payload.function(*payload.arguments)))
        frame = Frame(self.name, self.epoch, self.delay_s, (done,), number=self._number)
        self._arrived.append(frame)
        self._wake()
