"""What a search would know after each of its clusters, when all of them were compared."""

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.early_stop.scans import FAR


def scan_in_turns(
    distances: NDArray[np.float32], turn: NDArray[np.int64], turns: int, k: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the k-th nearest distance and the final hits that are known after 0 to all clusters.

    Args:
        distances: from the query to each vector that its clusters hold, [m].
        turn: with which cluster, from 1 on, each comes to light; 0 = it is known before.
        turns: how many clusters there are.
        k: hits wanted.
    Shapes: the answer [turns + 1] each.
    """
    by_turn = np.argsort(turn, kind="stable")
    ends = np.searchsorted(turn[by_turn], np.arange(turns + 1), side="right")
    final = np.argsort(distances, kind="stable")[:k]
    kth = np.full(turns + 1, FAR)
    found = np.zeros(turns + 1, np.int64)
    nearest, first = np.zeros(0, np.float32), 0
    for after, stop in enumerate(ends.tolist()):
        nearest = np.sort(np.concatenate([nearest, distances[by_turn[first:stop]]]))[:k]
        if len(nearest) == k:
            kth[after] = min(FAR, float(nearest[-1]))
        found[after] = np.count_nonzero(turn[final] <= after)
        first = stop
    return kth, found
