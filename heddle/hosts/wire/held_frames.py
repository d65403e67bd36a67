"""Frames without events wait for the next frame of their engine that has some. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from heddle.core.frames import Frame

HELD_S: Final = 0.05
"""How long a frame may wait, beside the step that is under way then. It has the engine's load and
costs, by which the next decision is made; each message to the runtime costs both processes, two
threads and a scheduling cycle."""


@dataclass(slots=True)
class HeldFrames:
    """Frames of a lane's engines that were not sent yet, oldest first, each with its time.

    Mutates: `add` and `take` change which these are. `due_s` is when they are to be sent at the
    latest; inf = there are none.
    """

    due_s: float = math.inf
    _held: dict[int, list[tuple[Frame, float]]] = field(default_factory=dict)

    def add(self, engine: int, frame: Frame, now_s: float) -> tuple[Frame, ...]:
        """Return the frames of an engine to be sent now, of which this is the last, or none."""
        if frame.events:
            return (*_aged(self._held.pop(engine, ()), now_s), frame)
        self._held.setdefault(engine, []).append((frame, now_s))
        self.due_s = min(self.due_s, now_s + HELD_S)
        return ()

    def take(self, now_s: float) -> dict[int, tuple[Frame, ...]]:
        """Return and forget all frames, by their engines."""
        held = {engine: _aged(frames, now_s) for engine, frames in self._held.items()}
        self._held.clear()
        self.due_s = math.inf
        return held


def _aged(held: Sequence[tuple[Frame, float]], now_s: float) -> tuple[Frame, ...]:
    return tuple(frame._replace(age_s=now_s - ended_s) for frame, ended_s in held)
