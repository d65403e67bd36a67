"""Virtual time: what happens next, and when. Nothing in a simulation reads another clock."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

Action = Callable[[], None]


@dataclass(slots=True)
class Timeline:
    """A Clock that jumps from one planned action to the next.

    Mutates: `step` moves `time_s` forward; actions of the same time run in the order planned.
    """

    time_s: float = 0.0
    _planned: list[tuple[float, int, Action]] = field(default_factory=list)
    _count: int = 0

    def now_s(self) -> float:
        """Return the virtual time [s]."""
        return self.time_s

    def at(self, time_s: float, action: Action) -> None:
        """Plan an action, for now at the earliest."""
        self._count += 1
        heapq.heappush(self._planned, (max(time_s, self.time_s), self._count, action))

    def after(self, delay_s: float, action: Action) -> None:
        """Plan an action for `delay_s` from now."""
        self.at(self.time_s + delay_s, action)

    def step(self) -> bool:
        """Jump to the next action and run it; False when none is planned."""
        if not self._planned:
            return False
        self.time_s, _, action = heapq.heappop(self._planned)
        action()
        return True
