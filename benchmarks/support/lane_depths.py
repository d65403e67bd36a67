"""Fits of live lanes, in turns with stress tests: a slow moment of the machine meets all."""

import math
from collections.abc import Sequence
from typing import Protocol

from heddle.app.profiling.lane_depths import Fitted, Probes, fit_lanes


class Fits:
    """Fits all lanes for one SLO several times, each time anew. What a fit takes is a turn.

    Args:
        probes: of the lanes.
        slo_s: from sending a burst to its last answer [s].
        length: of each query [tokens].
        count: fits that are made.

    Mutates: `found` gets what each fit found, by the lane's name.
    """

    def __init__(self, probes: Probes, slo_s: float, length: int, count: int) -> None:
        self.found: list[dict[str, Fitted]] = []
        self._probes, self._slo_s, self._length, self._count = probes, slo_s, length, count

    @property
    def is_done(self) -> bool:
        """Whether all are made."""
        return len(self.found) == self._count

    def take_turn(self) -> None:
        """Fit once."""
        self.found.append(fit_lanes(self._probes, (self._slo_s,), self._length))

    def depths(self, name: str) -> list[int]:
        """Return a lane's depth by each fit, in no order."""
        return [fits[name].depths[self._slo_s] for fits in self.found]


class TakesTurns(Protocol):
    """A measurement in parts."""

    @property
    def is_done(self) -> bool:
        """Whether no part is left."""
        ...

    def take_turn(self) -> None:
        """Measure the next part."""
        ...


def take_turns(measurements: Sequence[TakesTurns]) -> None:
    """Measure a part of each in turns to their end: a slow moment meets all of them."""
    while left := [one for one in measurements if not one.is_done]:
        for one in left:
            one.take_turn()


def within_bound(fitted: int, stressed: int) -> bool:
    """Whether a fit is as near to the stress test as the issue asks: one query or 10 %."""
    return abs(fitted - stressed) <= max(1, math.floor(0.1 * stressed))
