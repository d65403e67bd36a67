"""What early stops ask of an index, besides what every search does."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.early_stop.known_hits import KnownHits
from heddle.engines.vector.recall.exact_index import ExactIndex
from heddle.engines.vector.search import SortedHits


class ComparedIndex(ExactIndex, Protocol):
    """One whose clusters are known, too.

    Shapes: queries [n, d] float32, prepared as for a scan.
    """

    @property
    def list_sizes(self) -> NDArray[np.int64]:
        """Vectors in each inverted list, [nlist]."""
        ...

    @property
    def vectors_per_look(self) -> int:
        """How many vectors are scanned in the time it takes to ask whether a search may stop."""
        ...

    def hits(
        self,
        queries: NDArray[np.float32],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        topk: int,
    ) -> SortedHits:
        """Return what running heaps hold as hits: chunk ids, [n, topk] each or wider."""
        ...

    def centroid_distances(
        self, queries: NDArray[np.float32], lists: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return the squared distances of each query to the centroids of its lists, [n, w]."""
        ...

    def lists_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the inverted list of each chunk, [m]; -1 = unknown.

        It may be that of a while ago: no order of lists makes an answer wrong.
        """
        ...

    def known(self, query: NDArray[np.float32], chunk_ids: NDArray[np.int64]) -> KnownHits:
        """Compare a query [1, d] with these chunks, each once, where they still are, [1, h]."""
        ...
