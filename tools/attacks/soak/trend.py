"""The trend of a series of measurements."""

from collections.abc import Sequence


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line that has the least squares of errors.

    Raises:
        ValueError: all points stand at one place, or there are none.
    """
    count = len(points)
    if len({x for x, _ in points}) < 2:
        raise ValueError(f"{count} points have no slope: take more samples")
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    covered = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return covered / sum((x - mean_x) ** 2 for x, _ in points)
