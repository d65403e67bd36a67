"""How much faster one contender is than another over the same blocks of arrivals."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

DRAWS: Final = 2_000
Figure = Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class Ratio:
    """The other's figure over one's own, above 1 = faster, with its 95 % interval."""

    value: float
    low95: float
    high95: float


def ratio(
    own: Sequence[Sequence[float]],
    other: Sequence[Sequence[float]],
    figure: Figure,
    seed: int,
) -> Ratio:
    """Return a ratio of latencies, its interval by a paired bootstrap over the blocks.

    Args:
        own: latencies [s] of each block.
        other: the other contender's in the same blocks.
        figure: of all latencies together, such as their median.
        seed: of the draws.
    """
    draws = np.random.default_rng(seed)
    drawn = [
        _ratio([own[i] for i in picked], [other[i] for i in picked], figure)
        for picked in draws.integers(len(own), size=(DRAWS, len(own))).tolist()
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Ratio(_ratio(own, other, figure), float(low), float(high))


def median(latencies_s: Sequence[float]) -> float:
    """Return the median [s]."""
    return statistics.median(latencies_s)


def p99(latencies_s: Sequence[float]) -> float:
    """Return the 99th percentile [s]."""
    return float(np.quantile(latencies_s, 0.99))


def _ratio(
    own: Sequence[Sequence[float]], other: Sequence[Sequence[float]], figure: Figure
) -> float:
    return _over_all(other, figure) / _over_all(own, figure)


def _over_all(blocks: Sequence[Sequence[float]], figure: Figure) -> float:
    return figure([seconds for block in blocks for seconds in block])
