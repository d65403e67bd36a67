"""What happened in a simulation, as a digest to compare and a tail to read."""

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any

LINES_KEPT = 400


@dataclass(slots=True)
class EventLog:
    """A running sha256 over every line, and the newest lines themselves."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    _digest: Any = field(default_factory=hashlib.sha256)

    def add(self, time_s: float, text: str) -> None:
        """Note what happened at a time."""
        line = f"{time_s:.9f} {text}"
        self.lines.append(line)
        self._digest.update(line.encode())

    @property
    def digest(self) -> str:
        """A name for everything that was noted so far."""
        return str(self._digest.hexdigest())
