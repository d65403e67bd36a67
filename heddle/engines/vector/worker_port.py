"""What the vector engine is given: the index, and the corpus that it follows."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.search import SortedHits


class VectorWorker(Protocol):
    """What touches the index; the simulator's has a cost model instead.

    Shapes: queries [n, d] float32; lists [n, w] int64, -1 = scan nothing; distances [n, k]
    float32 and labels [n, k] int64 are running heaps of `heap_size` entries, from (inf, -1) on.
    """

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as the index is empty."""
        ...

    @property
    def list_sizes(self) -> NDArray[np.int64]:
        """Vectors in each inverted list, [nlist]."""
        ...

    @property
    def nprobe_default(self) -> int:
        """Clusters a query scans when it doesn't say."""
        ...

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        ...

    def heap_size(self, topk: int) -> int:
        """Return how many entries a heap needs for this many hits."""
        ...

    def prepared(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return queries as the other methods take them, [n, d]."""
        ...

    def coarse(self, queries: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
        """Return the nearest lists of each query, nearest first, [n, nprobe]."""
        ...

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> None:
        """Scan these lists; updates the heaps in place."""
        ...

    def hits(
        self,
        queries: NDArray[np.float32],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        topk: int,
    ) -> SortedHits:
        """Return what the heaps hold as hits: chunk ids, [n, topk] each, the nearest first."""
        ...

    def newest_revision(self) -> int:
        """Return the newest revision that was committed to the corpus, here or elsewhere."""
        ...

    def covers(self, revision: int) -> bool:
        """Whether a search that has to see this revision may begin on the index as it is."""
        ...

    def follow(self, *, in_flight: bool) -> int:
        """Bring a piece of what the corpus has written into the index; return how many changes.

        While searches are in flight nothing is taken from under them: vectors may be added, but
        what was deleted stays, and so do the clusters.
        """
        ...

    def store(self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> int:
        """Commit vectors to the corpus; return its revision, which the index will follow."""
        ...

    def close(self) -> None:
        """Let go of the corpus; nothing is called afterwards."""
        ...
