"""What the searches of a lane have taken lately, by its own step times."""

from collections import deque
from dataclasses import dataclass, field
from math import exp
from typing import Final

from heddle.core.frames import Frame
from heddle.costs.substage import SearchCall, StepCost

CALLS_KEPT: Final = 128
TOLD_EVERY: Final = 32  # searches


@dataclass(slots=True)
class SearchMeter:
    """Shares the time that an engine has scanned out among its searches, by the lists of each.

    Where searches share the scan of a list, its time is shared out too.

    Mutates: `step` and `ended` add what they are given; `take` counts anew from there.
    """

    _ended: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=CALLS_KEPT))
    _scanned_s: float = 0.0
    _lists: float = 0.0
    _new: int = 0

    def step(self, frame: Frame) -> None:
        """Fold in a step of the engine."""
        cost = step_cost(frame)
        if cost is not None and frame.features.get("scans"):
            beside_s = cost.step_s + cost.row_s * frame.features["scans"]
            self._scanned_s += max(0.0, frame.seconds - beside_s)

    def ended(self, sent_s: float, lists: int) -> None:
        """Fold in a search that has ended: when it was sent, and the lists that it scanned."""
        if not lists:
            return
        kept = exp(-1 / CALLS_KEPT)
        self._scanned_s *= kept
        self._lists = self._lists * kept + lists
        self._ended.append((sent_s, lists))
        self._new += 1

    def take(self) -> tuple[SearchCall, ...]:
        """Return the newest searches by when they were sent, after every 32; else none."""
        if self._new < TOLD_EVERY or not self._scanned_s:
            return ()
        self._new = 0
        list_s = self._scanned_s / self._lists
        return tuple(SearchCall(sent_s, lists * list_s) for sent_s, lists in sorted(self._ended))


def step_cost(frame: Frame | None) -> StepCost | None:
    """Return what a sub-stage costs beside its scans, by the engine's own fit; None = unknown."""
    if frame is None or frame.costs is None or "scans" not in frame.costs.coefficients_s:
        return None
    costs = frame.costs.coefficients_s
    return StepCost(costs["call"], costs["scans"])
