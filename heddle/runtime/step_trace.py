"""Which engine was busy when: what the scheduler overlapped."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

STEPS_MAX = 200_000  # an hour of steps; older ones are forgotten


@dataclass(frozen=True, slots=True)
class Overlap:
    """Seconds in which any engine worked, and in which at least two worked at once."""

    busy_s: float
    overlapped_s: float


@dataclass(slots=True)
class StepTrace:
    """A Tracer that keeps (lane, start, end) of the newest steps [s]."""

    steps: deque[tuple[str, float, float]] = field(default_factory=lambda: deque(maxlen=STEPS_MAX))

    def step(self, lane: str, ended_s: float, seconds: float) -> None:
        """Take in one step."""
        if seconds > 0:
            self.steps.append((lane, ended_s - seconds, ended_s))

    def busy_s(self, since_s: float = 0.0) -> dict[str, float]:
        """Return how long each lane worked since a time [s]."""
        total: dict[str, float] = {}
        for lane, start_s, end_s in self.steps:
            if end_s > since_s:
                total[lane] = total.get(lane, 0.0) + end_s - max(start_s, since_s)
        return total

    def overlap(self, since_s: float = 0.0) -> Overlap:
        """Return how much of the work ran at the same time as other engines' work."""
        return overlap_of((s, e) for _, s, e in self.steps if s >= since_s)


def overlap_of(intervals: Iterable[tuple[float, float]]) -> Overlap:
    """Return the length of the union of intervals, and of where two or more overlap."""
    edges = sorted(edge for s, e in intervals for edge in ((s, 1), (e, -1)))
    busy_s = overlapped_s = 0.0
    open_count, last_s = 0, 0.0
    for at_s, change in edges:
        busy_s += at_s - last_s if open_count >= 1 else 0.0
        overlapped_s += at_s - last_s if open_count >= 2 else 0.0
        open_count += change
        last_s = at_s
    return Overlap(busy_s, overlapped_s)
