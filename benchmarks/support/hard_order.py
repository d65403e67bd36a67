"""HedraRAG's order of clusters, which ours is compared with."""

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.early_stop.orders import Past


def hard_order(
    lists: NDArray[np.int64], past: Past, planned_before: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the turns of clusters that come by distance, [w], as HedraRAG §4.3 orders them.

    First those that hold a cached hit, then those that the search before planned, then the rest.
    """
    was_planned = np.isin(lists, planned_before)
    rank = np.where(np.isin(lists, past.hit_lists), 0, np.where(was_planned, 1, 2))
    return np.argsort(rank, kind="stable")
