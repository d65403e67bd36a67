"""The trend of a series of measurements."""

import statistics
from collections.abc import Sequence
from itertools import combinations


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median of the slopes between any two points.

    A few measurements that are far off, as memory is that another process shares for a while, do
    not move it.

    Raises:
        ValueError: all points stand at one place, or there are none.

    Source: Theil 1950, Sen 1968.
    """
    pairs = combinations(points, 2)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs if a[0] != b[0]]
    if not slopes:
        raise ValueError(f"{len(points)} points have no slope: take more samples")
    return statistics.median(slopes)
