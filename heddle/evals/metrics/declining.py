"""Whether a score separates right answers from questions without an answer."""

import math
from collections.abc import Sequence

import numpy as np


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """Return the chance that a positive scores above a negative; ties count half.

    None = one of the two is empty.
    """
    if not positive or not negative:
        return None
    ordered = np.sort(np.asarray(negative, dtype=np.float64))
    below = np.searchsorted(ordered, positive, side="left")
    up_to = np.searchsorted(ordered, positive, side="right")
    return float((below + up_to).mean() / (2 * len(ordered)))


def declined_at(
    kept: float, positive: Sequence[float], negative: Sequence[float]
) -> tuple[float, float]:
    """Return the share of negatives below the score that `kept` of the positives reach, and it.

    Without positives nothing is below: (0.0, -inf).
    """
    if not positive:
        return 0.0, -math.inf
    threshold = float(np.quantile(np.asarray(positive, dtype=np.float64), 1 - kept))
    below = sum(score < threshold for score in negative)
    return below / len(negative) if negative else 0.0, threshold
