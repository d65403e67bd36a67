"""Which engine was busy when: what the scheduler overlapped."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.core.frames import Frame
from heddle.runtime.step_log import StepLog

STEPS_MAX = 200_000  # an hour of steps; older ones are forgotten


@dataclass(frozen=True, slots=True)
class Overlap:
    """Seconds in which any engine worked, and in which at least two worked at once."""

    busy_s: float
    overlapped_s: float


class StepTrace:
    """A Tracer that keeps the newest steps, 20 bytes each: a server runs some 30 for a request.

    Args:
        steps_max: how many.

    `log`, where there is one, hears of each step besides.
    """

    def __init__(self, steps_max: int = STEPS_MAX) -> None:
        self.log: StepLog | None = None
        self._spans_s = np.zeros((steps_max, 2))  # start, end
        self._lanes = np.zeros(steps_max, np.int32)  # number of the step's lane
        self._numbers: dict[str, int] = {}
        self._count = 0  # of all steps so far

    def step(self, frame: Frame, ended_s: float) -> None:
        """Take in one step."""
        lane, seconds = frame.lane, frame.seconds
        if seconds <= 0:
            return
        if self.log is not None:
            self.log.step(frame, ended_s)
        place = self._count % len(self._lanes)
        self._spans_s[place] = ended_s - seconds, ended_s
        self._lanes[place] = self._numbers.setdefault(lane, len(self._numbers))
        self._count += 1

    def busy_s(self, since_s: float = 0.0) -> dict[str, float]:
        """Return how long each lane worked since a time [s]."""
        starts_s, ends_s = self._kept_spans_s.T
        lanes = self._lanes[: len(ends_s)]
        worked_s = np.maximum(0.0, ends_s - np.maximum(starts_s, since_s))
        totals_s = np.bincount(lanes, worked_s, minlength=len(self._numbers))
        return {lane: float(totals_s[n]) for lane, n in self._numbers.items() if totals_s[n] > 0}

    def overlap(self, since_s: float = 0.0) -> Overlap:
        """Return how much of the work ran at the same time as other engines' work."""
        return overlap_of((s, e) for s, e in self._kept_spans_s.tolist() if s >= since_s)

    @property
    def _kept_spans_s(self) -> NDArray[np.float64]:
        return self._spans_s[: self._count]


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
