"""A histogram: counts of observations between fixed bounds."""

from bisect import bisect_left
from dataclasses import dataclass, field


def doubling(first: float, count: int) -> tuple[float, ...]:
    """Return `count` bucket bounds, each double the previous one."""
    return tuple(first * 2**i for i in range(count))


@dataclass(slots=True)
class Histogram:
    """Counts of observations between bounds.

    Args:
        bounds: ascending; an observation counts at the first that it doesn't exceed.

    Mutates: `observe` counts, in `counts` [len(bounds) + 1], and adds up `total`.
    """

    bounds: tuple[float, ...]
    total: float = 0.0
    counts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
