"""The largest rate that meets a bound, found by trying."""

import math
from typing import Final

SPAN_MAX: Final = 64.0
ROUNDING: Final = 1e-9  # one step may be the precision itself


class RateSearch:
    """Goes up or down until the bound is met at one end and missed at the other, then bisects.

    Args:
        start: the first rate to try.
        precision: done when the smallest rate that misses is at most so many times the largest
            that meets.
        step: by what factor it goes.

    A rate `SPAN_MAX` times away from the start in either direction is tried no more: then `best`
    is 0, or the largest that was tried.
    """

    def __init__(self, start: float, precision: float, step: float = 2.0) -> None:
        self._start = start
        self._precision = precision * (1 + ROUNDING)
        self._step = step
        self._missed = math.inf
        self.best = 0.0

    @property
    def rate(self) -> float:
        """What to try next."""
        if self.best and math.isfinite(self._missed):
            return math.sqrt(self.best * self._missed)
        if self.best:
            return self._step * self.best
        return self._missed / self._step if math.isfinite(self._missed) else self._start

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to try."""
        if self.best and math.isfinite(self._missed):
            return self._missed <= self.best * self._precision
        return not self._start / SPAN_MAX <= self.rate <= self._start * SPAN_MAX

    def take(self, *, meets: bool) -> None:
        """Note how trying `rate` went."""
        if meets:
            self.best = self.rate
        else:
            self._missed = self.rate
