"""Copies lists to the device, a piece a sub-stage. (HedraRAG §4.4)"""

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from heddle.engines.vector.ivf.hot.block_tier import STAGED_BLOCKS, BlockTier, Stage
from heddle.engines.vector.ivf.hot.list_reader import ListReader
from heddle.engines.vector.ivf.hot.residency import BLOCK_ROWS, Residency


@dataclass(slots=True)
class Loading:
    """A list on its way: its blocks [b], of which `started` have a copy."""

    number: int
    blocks: NDArray[np.int64]
    rows: int
    started: int = 0
    last_copy: Stage | None = None


class Swaps:
    """Brings lists in and takes others out; a list may be scanned on the device once it is whole.

    Args:
        reader: what the lists hold.
        tier: the device.
        residency: who has which of its blocks.
    """

    def __init__(self, reader: ListReader, tier: BlockTier, residency: Residency) -> None:
        self._reader, self._tier, self._residency = reader, tier, residency
        self._queue: deque[int] = deque()
        self._sizes = np.zeros(0, np.int64)
        self._loading: Loading | None = None
        self._in_flight: list[Loading] = []

    def aim(self, wanted: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        """Evict the lists that aren't wanted any more and queue the others, the first first.

        A list that is being copied stays, wanted or not. Shapes: wanted [m]; sizes [nlist].
        """
        is_wanted = np.zeros(len(sizes), bool)
        is_wanted[wanted] = True
        self._residency.evict(np.flatnonzero(self._residency.is_ready & ~is_wanted))
        self._queue = deque(wanted[~self._residency.is_resident[wanted]].tolist())
        self._sizes = sizes

    def forget(self) -> None:
        """Take everything out: the index has changed, and so may have every list."""
        # A copy that still runs writes blocks that nothing reads before a later copy, which
        # waits for it, has written them again.
        self._queue.clear()
        self._loading, self._in_flight = None, []
        self._residency.evict(np.flatnonzero(self._residency.is_resident))

    def advance(self) -> None:
        """Note which copies are over, and start at most one more."""
        for loading in self._in_flight:
            if loading.last_copy is None or loading.last_copy.is_free:
                self._residency.is_ready[loading.number] = True
        is_ready = self._residency.is_ready
        self._in_flight = [one for one in self._in_flight if not is_ready[one.number]]
        if not (self._loading or self._queue):
            return
        stage = self._tier.free_stage()
        if stage is not None:
            self._copy(stage)

    def _copy(self, stage: Stage) -> None:
        """Fill a stage with the next blocks of the lists in turn, and start its copy."""
        places: list[NDArray[np.int64]] = []
        room = STAGED_BLOCKS
        while room and self._next() is not None:
            loading = self._loading
            assert loading is not None, "a next list that isn't there"
            count = min(room, len(loading.blocks) - loading.started)
            self._fill(stage, STAGED_BLOCKS - room, loading, count)
            places.append(loading.blocks[loading.started : loading.started + count])
            loading.started += count
            loading.last_copy = stage
            room -= count
            if loading.started == len(loading.blocks):
                self._in_flight.append(loading)
                self._loading = None
        if places:
            self._tier.copy_in(stage, np.concatenate(places))

    def _next(self) -> Loading | None:
        """Return the list that is being copied, the next of the queue if there is none."""
        while self._loading is None and self._queue:
            number = self._queue.popleft()
            rows = int(self._sizes[number])
            blocks = self._residency.admit(number, -(-rows // BLOCK_ROWS))
            if blocks is None:  # a list that was being copied when it was no longer wanted
                self._queue.clear()
                break
            self._loading = Loading(number, blocks, rows)
        return self._loading

    def _fill(self, stage: Stage, at: int, loading: Loading, count: int) -> None:
        """Put the next `count` blocks of a list into a stage, from its block `at` on."""
        first = loading.started * BLOCK_ROWS
        stop = min(first + count * BLOCK_ROWS, loading.rows)
        rows = slice(at * BLOCK_ROWS, at * BLOCK_ROWS + stop - first)
        vectors = self._reader.read(loading.number, first, stop)
        labels = self._reader.labels(loading.number, first, stop)
        stage.vectors.view(-1, self._tier.dims)[rows] = torch.from_numpy(vectors)
        stage.labels.view(-1)[rows] = torch.from_numpy(labels)
