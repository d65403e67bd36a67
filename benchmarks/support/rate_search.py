"""The largest rate that meets a bound, found by trying."""

import math
from typing import Final

SPAN_MAX: Final = 64.0
ROUNDING: Final = 1e-9  # the first step is the precision itself


class RateSearch:
    """Goes up or down until the bound is met at one end and missed at the other, then bisects.

    The first step is a factor of `precision`, each further one doubles the way from the start (in
    logarithms): what is near takes two tries, what is far not many.

    Args:
        start: the first rate to try.
        precision: done when the smallest rate that misses is at most `precision` times the
            largest that meets.

    No rate is tried that is more than `SPAN_MAX` times away from the start: `best` is 0 where none
    meets the bound, and the largest that was tried where all do.
    """

    def __init__(self, start: float, precision: float) -> None:
        self._least, self._start, self._most = start / SPAN_MAX, start, start * SPAN_MAX
        self._precision = precision * (1 + ROUNDING)
        self._reach = precision
        self._missed = math.inf
        self.best = 0.0

    @property
    def rate(self) -> float:
        """What to try next."""
        if self.best and math.isfinite(self._missed):
            return math.sqrt(self.best * self._missed)
        if self.best:
            return min(self._start * self._reach, self._most)
        if math.isfinite(self._missed):
            return max(self._start / self._reach, self._least)
        return self._start

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to try."""
        if self.best and math.isfinite(self._missed):
            return self._missed <= self.best * self._precision
        return self.best >= self._most or self._missed <= self._least

    def take(self, *, meets: bool) -> None:
        """Note how trying `rate` went."""
        tried = self.rate
        if (self.best > 0) != math.isfinite(self._missed):
            self._reach **= 2
        if meets:
            self.best = tried
        else:
            self._missed = tried
