"""In which inverted list each chunk lies."""

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.live_index import LiveIndex

STALE_SHARE = 0.05  # of the vectors: once so many have come or gone, it is looked up anew


class ChunkLists:
    """The list of each chunk by its id, read from the index when it is first asked for.

    What comes later is unknown until enough has come: who asks uses it as a hint.

    Args:
        live: the index.
    """

    def __init__(self, live: LiveIndex) -> None:
        self._live = live
        self._list_of: NDArray[np.int32] | None = None
        self._changes = 0

    def changed(self, count: int) -> None:
        """Note that so many vectors have come or gone."""
        self._changes += count
        if self._changes > STALE_SHARE * self._live.count:
            self._list_of = None

    def of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the list of each chunk, [m]; -1 = unknown."""
        if self._list_of is None:
            self._list_of, self._changes = self._read(), 0
        is_known = (chunk_ids >= 0) & (chunk_ids < len(self._list_of))
        lists: NDArray[np.int64] = self._list_of[np.where(is_known, chunk_ids, 0)].astype(np.int64)
        lists[~is_known] = -1
        return lists

    def _read(self) -> NDArray[np.int32]:
        inverted: Any = self._live.ivf.invlists
        sizes = self._live.list_sizes()
        ids = [
            faiss.rev_swig_ptr(inverted.get_ids(number), int(size)).copy()
            for number, size in enumerate(sizes.tolist())
            if size
        ]
        labels: NDArray[np.int64] = np.concatenate([*ids, np.zeros(0, np.int64)])
        lists = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        if self._live.refine is not None:
            labels = self._live.refine.chunk_ids_at(labels)
        is_there = labels >= 0
        list_of = np.full(int(labels.max(initial=0)) + 1, -1, np.int32)
        list_of[labels[is_there]] = lists[is_there]
        return list_of
