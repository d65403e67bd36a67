"""Frames that tell of no task, until one that does takes them along. Pure."""

import math
from dataclasses import dataclass, field
from typing import Final

from heddle.core.frames import Frame

HELD_S: Final = 0.05
"""How long a frame may be held: it has the engine's load and costs, by which the next decision is
made. Each message to the runtime costs both processes, two threads and a scheduling cycle."""


@dataclass(slots=True)
class HeldFrames:
    """Frames of a lane's engines that were not sent yet, oldest first.

    Mutates: `add` and `take` change which these are. `due_s` is when they are to be sent at the
    latest; inf = there are none.
    """

    due_s: float = math.inf
    _held: dict[int, list[Frame]] = field(default_factory=dict)

    def add(self, engine: int, frame: Frame, now_s: float) -> tuple[Frame, ...]:
        """Return the frames of an engine to be sent now, of which this is the last, or none."""
        if frame.events:
            return (*self._held.pop(engine, ()), frame)
        self._held.setdefault(engine, []).append(frame)
        self.due_s = min(self.due_s, now_s + HELD_S)
        return ()

    def take(self) -> dict[int, tuple[Frame, ...]]:
        """Return and forget all frames, by their engines."""
        held = {engine: tuple(frames) for engine, frames in self._held.items()}
        self._held.clear()
        self.due_s = math.inf
        return held
