"""What locality and the self-check ask of an index, besides what every search does."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.locality.known_hits import KnownHits
from heddle.engines.vector.search import SortedHits


class Piece(NamedTuple):
    """How far an exact comparison is: where its next piece begins, 0 = it is over.

    `compared` counts the vectors of the piece.
    """

    next: int
    compared: int


class ExactIndex(Protocol):
    """An index whose searches can be run again exactly.

    Shapes: queries [n, d] float32, prepared as for a scan.
    """

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        ...

    def compare_piece(
        self,
        query: NDArray[np.float32],
        first: int,
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> Piece:
        """Compare a query with the next vectors exactly; updates its k nearest chunks in place.

        Shapes: query [1, d]; distances and labels [1, k], from (inf, -1) on, in any order.
        """
        ...


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
