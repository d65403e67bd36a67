"""Where in the inverted lists each chunk lies."""

from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.live_index import LiveIndex

STALE_SHARE = 0.05  # of the vectors: once this share has come or gone, places are looked up again


class Places(NamedTuple):
    """Where chunks are: lists, offsets in them, and the labels that the lists hold, [m] each.

    All are -1 where a chunk is not, or not known.
    """

    lists: NDArray[np.int64]
    offsets: NDArray[np.int64]
    labels: NDArray[np.int64]


class ChunkPlaces:
    """The place of each chunk by its id, read from the index when it is first asked for.

    What comes later is unknown until enough has come, and what moves is where it was: `lists_of`
    is a hint, `of` looks whether a chunk is still there.

    Args:
        live: the index.
    """

    def __init__(self, live: LiveIndex) -> None:
        self._live = live
        self._list_of: NDArray[np.int32] | None = None
        self._offset_of: NDArray[np.int32] = np.zeros(0, np.int32)
        self._changes = 0

    def changed(self, count: int) -> None:
        """Note that `count` vectors have come or gone."""
        self._changes += count
        if self._changes > STALE_SHARE * self._live.count:
            self._list_of = None

    def lists_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the list of each chunk, as of a while ago, [m]; -1 = unknown."""
        if self._list_of is None:
            self._list_of, self._offset_of = self._read()
            self._changes = 0
        return _looked_up(self._list_of, chunk_ids)

    def of(self, chunk_ids: NDArray[np.int64]) -> Places:
        """Return where chunks are now; those that have moved or gone since are nowhere."""
        lists = self.lists_of(chunk_ids)
        offsets = _looked_up(self._offset_of, chunk_ids)
        inverted: Any = self._live.ivf.invlists
        labels = np.full(len(chunk_ids), -1, np.int64)
        for number in np.flatnonzero(lists >= 0).tolist():
            place = int(lists[number]), int(offsets[number])
            if place[1] < inverted.list_size(place[0]):
                labels[number] = inverted.get_single_id(*place)
        refine = self._live.refine
        there = labels if refine is None else refine.chunk_ids_at(labels)
        is_there = (lists >= 0) & (there == chunk_ids)
        return Places(*(np.where(is_there, part, -1) for part in (lists, offsets, labels)))

    def _read(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the list and the offset of each chunk, by its id."""
        inverted: Any = self._live.ivf.invlists
        sizes = self._live.list_sizes()
        ids = [
            faiss.rev_swig_ptr(inverted.get_ids(number), int(size)).copy()
            for number, size in enumerate(sizes.tolist())
            if size
        ]
        labels: NDArray[np.int64] = np.concatenate([*ids, np.zeros(0, np.int64)])
        lists = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        offsets = np.arange(len(lists)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        if self._live.refine is not None:
            labels = self._live.refine.chunk_ids_at(labels)
        is_there = labels >= 0
        list_of = np.full(int(labels.max(initial=0)) + 1, -1, np.int32)
        offset_of = list_of.copy()
        list_of[labels[is_there]] = lists[is_there]
        offset_of[labels[is_there]] = offsets[is_there]
        return list_of, offset_of


def _looked_up(table: NDArray[np.int32], chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    is_known = (chunk_ids >= 0) & (chunk_ids < len(table))
    found: NDArray[np.int64] = table[np.where(is_known, chunk_ids, 0)].astype(np.int64)
    found[~is_known] = -1
    return found
