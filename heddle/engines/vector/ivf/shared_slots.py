"""Rows whose sub-stages scan the same lists, in any order that needs."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.ivf.scheduler import NO_LIST
from heddle.engines.vector.ivf.slots import FIRST_ROWS, SlotTable


class SharedSlotTable(SlotTable):
    """A slot table whose rows may scan their lists in any order, as others want the same ones.

    `wanting` [nlist] int64 counts the rows that have yet to scan each list.

    Args:
        nlist: inverted lists of the index.
        others: as of any slot table.
    """

    _COLUMNS: ClassVar[tuple[str, ...]] = (*SlotTable._COLUMNS, "is_pending")

    def __init__(self, k: int, heap: int, dims: int, allowed: Allowed | None, nlist: int) -> None:
        super().__init__(k, heap, dims, allowed)
        self.is_pending = np.zeros((FIRST_ROWS, nlist), bool)
        self.wanting = np.zeros(nlist, np.int64)

    def extend(self, rows: NDArray[np.int64], stops: int | NDArray[np.int64]) -> None:
        """Let rows [m] go on to these stops, whose lists they want; see `SlotTable.extend`."""
        before = self.stop[rows]
        super().extend(rows, stops)
        self._want(rows, before)

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Free rows; the last ones in use move into the holes."""
        self.wanting -= self.is_pending[rows].sum(axis=0)
        super().remove(rows)
        self.is_pending[self.count : self.count + len(rows)] = False  # for who gets them next

    def pending(self, row: int) -> NDArray[np.int64]:
        """Return the lists that a row has yet to scan, in its order, [m]."""
        lists: NDArray[np.int64] = self.lists[row, : self.stop[row]]
        pending: NDArray[np.int64] = lists[self.is_pending[row, lists]]
        return pending

    def take_shared(self, lists: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Advance each row by those of these lists that it has yet to scan.

        Returns: the rows [m] and what they scan [m, w], each column one list or NO_LIST.
        Mutates: position, is_pending, wanting.
        """
        lists = lists[self.wanting[lists] > 0]
        is_taken = self.is_pending[: self.count, lists]
        counts = is_taken.sum(axis=1)
        self.position[: self.count] += counts
        self.is_pending[: self.count, lists] = False
        self.wanting[lists] = 0
        rows = np.flatnonzero(counts)
        return rows, np.where(is_taken[rows], lists, NO_LIST)

    def _want(self, rows: NDArray[np.int64], first: NDArray[np.int64]) -> None:
        """Mark the lists of rows from a turn on, up to their stop, as pending."""
        turns = np.arange(self.lists.shape[1])
        is_wanted = (turns >= first[:, None]) & (turns < self.stop[rows][:, None])
        lists = self.lists[rows]
        at = np.broadcast_to(rows[:, None], lists.shape)
        self.is_pending[at[is_wanted], lists[is_wanted]] = True
        self.wanting += np.bincount(lists[is_wanted], minlength=len(self.wanting))
