"""The running mean of shares such as recalls, and how far off it may be. Pure."""

import math
from collections import deque
from typing import Final

from heddle.core.results import RecallEstimate

CONFIDENCE: Final = 0.95
HALVINGS: Final = 40  # of the interval in which a bound lies


class RecallWindow:
    """The recalls of the last searches that were run again exactly.

    Args:
        size: how many count; earlier ones are forgotten.
    """

    def __init__(self, size: int) -> None:
        self._recalls: deque[float] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._recalls)

    @property
    def mean(self) -> float:
        """Their mean."""
        return sum(self._recalls) / len(self._recalls)

    @property
    def estimate(self) -> RecallEstimate | None:
        """Their mean and its lower bound; None without any."""
        if not self._recalls:
            return None
        return RecallEstimate(self.mean, lower_bound(self.mean, len(self)), len(self))

    def add(self, recall: float) -> None:
        """Take one more in, a share in [0, 1]."""
        self._recalls.append(recall)

    def is_below(self, promised: float) -> bool:
        """Whether chance alone would hardly bring a mean that low if the promise were kept."""
        if not self._recalls:
            return False
        return 1 - lower_bound(1 - self.mean, len(self)) < promised

    def clear(self) -> None:
        """Forget them."""
        self._recalls.clear()


def lower_bound(mean: float, count: int) -> float:
    """Return what the expectation of shares is at least, by the mean of `count` of them.

    It holds with a probability of `CONFIDENCE`, however they are distributed.

    Source: Hoeffding 1963, Theorem 1, in its sharpest form: a mean m has a probability of at most
        exp(-n KL(m, p)) to lie so far above p.
    """
    enough = -math.log(1 - CONFIDENCE) / count
    low, high = 0.0, mean
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _divergence(mean, middle) > enough:
            low = middle
        else:
            high = middle
    return low


def _divergence(mean: float, expected: float) -> float:
    """Return the Kullback-Leibler divergence of two coins; `expected` <= `mean`."""
    if mean <= expected:
        return 0.0
    if not expected:
        return math.inf
    heads = mean * math.log(mean / expected)
    tails = 0.0 if mean == 1 else (1 - mean) * math.log((1 - mean) / (1 - expected))
    return heads + tails
