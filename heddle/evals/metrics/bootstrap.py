"""Bootstrap intervals: how far a mean would move with other questions of the same kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InputError

RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
_BLOCK_DRAWS: Final = 4_000_000  # indices held at once: 32 MB

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `count` questions with its 95 % interval [low, high]."""

    mean: float
    low: float
    high: float
    count: int


def estimate_mean(values: Sequence[float], seed: int) -> Estimate:
    """Return the mean with its percentile bootstrap interval.

    Questions are drawn with replacement, RESAMPLES times. (Efron 1979; percentile method)
    The interval says nothing about other seeds of training or other data sets.

    Raises:
        InputError: there are no values.
    """
    if not values:
        raise InputError("a mean needs at least one value")
    column = np.asarray(values, dtype=np.float64)
    return interval(float(column.mean()), resampled_means(column[:, None], seed)[:, 0], len(values))


def estimate_difference(values: Sequence[float], others: Sequence[float], seed: int) -> Estimate:
    """Return the mean of `values - others`, paired: both were measured on the same questions.

    A question that is hard for both methods moves both means in a resample, so the interval is
    as narrow as the pairs agree.

    Raises:
        InputError: there are no values, or the two don't have the same length.
    """
    if len(values) != len(others):
        raise InputError(
            f"a paired comparison needs the same questions on both sides, got {len(values)} "
            f"and {len(others)} values"
        )
    pairs = zip(values, others, strict=True)
    return estimate_mean([one - other for one, other in pairs], seed)


def resampled_means(columns: Floats, seed: int) -> Floats:
    """Return the means of RESAMPLES draws of the rows with replacement.

    Every column sees the same draws, which is what pairs them.
    Shapes: columns [n, m] float64, n > 0; returns [RESAMPLES, m] float64.
    """
    rng = np.random.default_rng(seed)
    n = len(columns)
    block = max(1, _BLOCK_DRAWS // n)
    means = [
        columns[rng.integers(0, n, (min(block, RESAMPLES - done), n))].mean(axis=1)
        for done in range(0, RESAMPLES, block)
    ]
    return np.concatenate(means)


def interval(value: float, draws: Floats, count: int) -> Estimate:
    """Return a value with the percentiles of its bootstrap draws.

    The interval is widened to hold the value itself, which rounding can put just outside.
    """
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(draws, [tail, 100 - tail])
    return Estimate(value, min(float(low), value), max(float(high), value), count)
