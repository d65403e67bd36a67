"""Scans that a device takes part in: what is hot there, the rest on the host. (HedraRAG §4.4)"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.ports import Clock
from heddle.engines.vector.ivf.hot.access_counts import AccessCounts
from heddle.engines.vector.ivf.hot.block_tier import BlockTier, Found
from heddle.engines.vector.ivf.hot.list_reader import ListReader
from heddle.engines.vector.ivf.hot.port import ScanLists
from heddle.engines.vector.ivf.hot.residency import BLOCK_ROWS, Residency
from heddle.engines.vector.ivf.hot.swaps import Swaps
from heddle.engines.vector.ivf.hot.worth import Worth
from heddle.engines.vector.ivf.scheduler import NO_LIST
from heddle.engines.vector.search import SortedHits, ascending

SWAP_EVERY: Final = 50  # sub-stages, as in the paper


@dataclass(slots=True)
class HotCounts:
    """Lists over all queries: asked for, of these on the device, and scanned there."""

    probed: int = 0
    ready: int = 0
    on_device: int = 0


class HotClusters:
    """The lists that are scanned most lie on a device, which scans them for a whole sub-stage.

    Every SWAP_EVERY sub-stages the lists with the highest counts, which fade, are wanted there;
    they are copied a piece a sub-stage beside the scans, and a list on its way is scanned on the
    host. The device is used only where that should be faster than the host would be, but for
    probes now and then.

    Args:
        reader: what the lists hold.
        tier: the device.
        blocks: how many vectors it may hold, in blocks.
        clock: measures what the host and the device cost.
        swap_every: sub-stages between two swaps.
        worth: decides whether the device is used; None = it always is.
    """

    def __init__(
        self,
        reader: ListReader,
        tier: BlockTier,
        blocks: int,
        clock: Clock,
        *,
        swap_every: int = SWAP_EVERY,
        worth: Worth | None = None,
    ) -> None:
        self.counts = HotCounts()
        self._reader, self._tier, self._clock = reader, tier, clock
        self._blocks = blocks
        self._swap_every = swap_every
        self._worth = worth
        self._sizes = reader.sizes()
        self._accesses = AccessCounts(len(self._sizes))
        self._residency = Residency(len(self._sizes), blocks)
        self._swaps = Swaps(reader, tier, self._residency)
        self._substages = 0

    @property
    def nbytes(self) -> int:
        """What the lists may take on the device, whether they are there yet or not."""
        return self._tier.nbytes

    def index_changed(self) -> None:
        """Trust nothing that was copied: vectors were added to lists, or taken from them."""
        self._sizes = self._reader.sizes()
        self._swaps.forget()
        self._aim()

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        scan_on_host: ScanLists,
    ) -> NDArray[np.int64]:
        """Scan lists on the device where that pays; see `ListDevice.scan`."""
        self._accesses.note(lists)
        self._swap()
        is_list = lists != NO_LIST
        is_hot = is_list & self._residency.is_ready[lists]
        on_device, vectors = int(is_hot.sum()), int(self._sizes[lists].sum(where=is_hot))
        self.counts.probed += int(is_list.sum())
        self.counts.ready += on_device
        if not self._uses_device(on_device, vectors):
            self._scan_on_host(queries, lists, distances, labels, scan_on_host)
            return np.zeros(len(lists), np.int64)
        self.counts.on_device += on_device
        started_s = self._clock.now_s()
        found = self._launch(queries, np.where(is_hot, lists, NO_LIST), distances.shape[1])
        spent_s = self._clock.now_s() - started_s
        left = np.where(is_hot, NO_LIST, lists)
        rows = np.flatnonzero((left != NO_LIST).any(axis=1))
        if len(rows):
            heaps = (distances[rows], labels[rows])
            self._scan_on_host(queries[rows], left[rows], *heaps, scan_on_host)
            distances[rows], labels[rows] = heaps
        started_s = self._clock.now_s()
        _merge(distances, labels, found.wait())
        if self._worth is not None:
            self._worth.saw_device(vectors, spent_s + self._clock.now_s() - started_s)
        served: NDArray[np.int64] = is_hot.sum(axis=1)
        return served

    def _swap(self) -> None:
        """Move a piece to the device; now and then, choose anew what is to be there."""
        self._substages += 1
        if self._substages % self._swap_every == 0:
            self._aim()
            self._accesses.fade()
            if self._worth is not None:
                self._worth.swapped()
        self._swaps.advance()

    def _aim(self) -> None:
        needed = -(-self._sizes // BLOCK_ROWS)
        resident = self._residency.is_resident
        self._swaps.aim(self._accesses.hottest(needed, self._blocks, resident), self._sizes)

    def _uses_device(self, lists: int, vectors: int) -> bool:
        if not lists:
            return False
        return self._worth is None or self._worth.uses_device(lists, vectors)

    def _launch(self, queries: NDArray[np.float32], lists: NDArray[np.int64], heap: int) -> Found:
        """Start the device on these lists."""
        return self._tier.scan(
            np.ascontiguousarray(queries), self._residency.blocks_of(lists), heap
        )

    def _scan_on_host(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        scan_on_host: ScanLists,
    ) -> None:
        started_s = self._clock.now_s()
        scan_on_host(queries, lists, distances, labels)
        if self._worth is not None:
            is_list = lists != NO_LIST
            vectors = int(self._sizes[lists].sum(where=is_list))
            seconds = self._clock.now_s() - started_s
            self._worth.saw_host(int(is_list.sum()), vectors, seconds)


def _merge(distances: NDArray[np.float32], labels: NDArray[np.int64], found: SortedHits) -> None:
    """Keep the nearest of two lists a row in the first, the farthest first: still a heap.

    Shapes: distances and labels [n, k]; found [n, m] each.
    """
    both = ascending(
        np.concatenate([distances, found[0]], axis=1), np.concatenate([labels, found[1]], axis=1)
    )
    last = distances.shape[1] - 1
    distances[:], labels[:] = both[0][:, last::-1], both[1][:, last::-1]
