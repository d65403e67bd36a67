"""What nearly all batches keep, over their prediction: the margin that admission adds."""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.costs.nonnegative_fit import MAD_TO_SIGMA

CONFIDENCE: Final = 0.95
OUTLIER_SIGMAS: Final = 4.0
OUTLIER_MIN: Final = 0.3  # of the prediction, above the others: less is never called an outlier
# Student's t at 95 %, one-sided, of 1 to 17 degrees of freedom: 19 ratios have a conformal bound.
STUDENT_T: Final = (
    *(6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833),
    *(1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740),
)


class TimeMargin(NamedTuple):
    """`bound` times the prediction holds for 95 % of batches; at least 1.

    `outlier_share` of them take far longer than the others; the bound covers those only where
    they are few enough.
    """

    bound: float
    outlier_share: float


def time_margin(ratios: NDArray[np.float64]) -> TimeMargin:
    """Return the margin that the times of some batches ask for.

    With at least 19 ratios: the split conformal bound, which holds for any distribution. Of fewer
    the largest would be the bound, and one slow batch would decide. Student's bound of one more
    ratio uses all of them, as if they were normal, and is nearer to the truth
    (docs/development/notebook.md).

    Shapes: ratios [n], each a batch's time over its prediction.
    """
    if not len(ratios):
        return TimeMargin(1.0, 0.0)
    middle = float(np.median(ratios))
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(ratios - middle)))
    is_outlier = ratios > max(1.0, middle) + max(OUTLIER_SIGMAS * sigma, OUTLIER_MIN)
    outlier_share = float(is_outlier.mean())
    is_told = _conformal_rank(len(ratios)) <= len(ratios)
    covered = ratios if is_told and outlier_share <= 1 - CONFIDENCE else ratios[~is_outlier]
    return TimeMargin(max(1.0, _bound(covered)), outlier_share)


def _bound(ratios: NDArray[np.float64]) -> float:
    """Return what one more ratio stays below with a probability of 95 %."""
    count = len(ratios)
    if (rank := _conformal_rank(count)) <= count:
        return float(np.sort(ratios)[rank - 1])
    if count < 2:
        return float(ratios.max(initial=1.0))
    spread = float(ratios.std(ddof=1)) * math.sqrt(1 + 1 / count)
    return float(ratios.mean()) + STUDENT_T[count - 2] * spread


def _conformal_rank(count: int) -> int:
    return math.ceil((count + 1) * CONFIDENCE)
