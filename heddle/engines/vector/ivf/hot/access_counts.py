"""How often each cluster is scanned, of late. Pure. (HedraRAG §4.4)"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.scheduler import NO_LIST

FADING: Final = 0.9  # what a count keeps at each swap: half of it after about seven
STAY_FACTOR: Final = 1.2  # by how much a list must lead one that is there, which spares copies


class AccessCounts:
    """Counts of scans by list, which fade from swap to swap.

    Args:
        nlist: lists of the index.
    """

    def __init__(self, nlist: int) -> None:
        self._counts = np.zeros(nlist)

    def note(self, lists: NDArray[np.int64]) -> None:
        """Count the lists of a sub-stage, any shape; NO_LIST doesn't count."""
        self._counts += np.bincount(lists[lists != NO_LIST], minlength=len(self._counts))

    def fade(self) -> None:
        """Let the past weigh less."""
        self._counts *= FADING

    def hottest(
        self, blocks: NDArray[np.int64], blocks_max: int, is_resident: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the lists that are scanned most and fit together, the hottest first, [m].

        Args:
            blocks: what each list takes.
            blocks_max: what there is.
            is_resident: the lists that are there already.
        Shapes: blocks and is_resident [nlist].
        """
        heat = np.where(is_resident, STAY_FACTOR, 1.0) * self._counts
        order = np.argsort(-heat, kind="stable")
        order = order[(heat[order] > 0) & (blocks[order] > 0) & (blocks[order] <= blocks_max)]
        return order[np.cumsum(blocks[order]) <= blocks_max]
