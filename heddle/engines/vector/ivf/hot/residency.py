"""Which blocks of the device hold which list, and which lists may be scanned there. Pure."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.files.index_kind import HOT_BLOCK_ROWS

BLOCK_ROWS: Final = HOT_BLOCK_ROWS
EMPTY: Final = 0  # the block that never holds a vector: it fills the ends of rows of blocks


class Residency:
    """The device's blocks, given to lists and taken back.

    A list is `is_resident` once it has blocks and `is_ready` once its vectors are in them: what
    is on its way is scanned elsewhere.

    Args:
        nlist: lists of the index.
        blocks: blocks of the device, besides the empty one.
    Shapes: is_resident and is_ready [nlist] bool; table [nlist, w] int64: each list's blocks,
    then EMPTY.
    """

    def __init__(self, nlist: int, blocks: int) -> None:
        self.is_resident = np.zeros(nlist, bool)
        self.is_ready = np.zeros(nlist, bool)
        self.table = np.full((nlist, 1), EMPTY, np.int64)
        self._free = np.arange(blocks, EMPTY, -1)

    def admit(self, number: int, blocks: int) -> NDArray[np.int64] | None:
        """Give a list its blocks, [blocks], or None where too few are free."""
        if blocks > len(self._free):
            return None
        cut = len(self._free) - blocks
        self._free, given = self._free[:cut], self._free[cut:]
        if blocks > self.table.shape[1]:
            wider = np.full((len(self.table), blocks), EMPTY, np.int64)
            wider[:, : self.table.shape[1]] = self.table
            self.table = wider
        self.table[number, :blocks] = given
        self.is_resident[number] = True
        return given

    def evict(self, lists: NDArray[np.int64]) -> None:
        """Take the blocks of these lists back."""
        held = self.table[lists]
        self._free = np.concatenate([self._free, held[held != EMPTY]])
        self.table[lists] = EMPTY
        self.is_resident[lists] = self.is_ready[lists] = False

    def blocks_of(self, lists: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the blocks that each row of lists lies in, EMPTY at the ends.

        Shapes: lists [n, w], below 0 = none; the answer [n, b], b the most that a row has.
        """
        held = self.table[lists].reshape(len(lists), -1)
        held[np.repeat(lists < 0, self.table.shape[1], axis=1)] = EMPTY
        rows, columns = np.nonzero(held)
        counts = np.bincount(rows, minlength=len(lists))
        firsts = np.cumsum(counts) - counts
        packed = np.full((len(lists), counts.max(initial=0)), EMPTY, np.int64)
        packed[rows, np.arange(len(rows)) - firsts[rows]] = held[rows, columns]
        return packed
