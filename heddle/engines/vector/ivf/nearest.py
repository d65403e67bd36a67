"""The nearest of many, by distance and number at once."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.search import SortedHits

NUMBER_BITS: Final = 32


def nearest(distances: NDArray[np.float32], numbers: NDArray[np.int64], count: int) -> SortedHits:
    """Return the `count` nearest of each row, the nearest first, ties by number.

    The bits of a float that isn't negative are in the order of its value, so a distance with a
    number behind it is one integer, and integers are sorted several times as fast as pairs.

    Args:
        distances: squared, so none is negative, [n, m].
        numbers: of what is so far away, from -1 (nothing, at distance inf) to 2**32 - 2, [n, m], or
            [m] where all rows have the same.
        count: at most m.

    Shapes: both results [n, count].
    """
    keys = distances.view(np.uint32).astype(np.int64)
    keys <<= NUMBER_BITS
    keys |= numbers + 1
    if count < keys.shape[1]:
        keys.partition(count - 1, axis=1)
        keys = keys[:, :count].copy()
    keys.sort(axis=1)
    found = (keys >> NUMBER_BITS).astype(np.uint32).view(np.float32)
    return found, (keys & ((1 << NUMBER_BITS) - 1)) - 1
