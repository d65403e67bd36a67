"""What early stops and the self-check ask of inverted lists, whichever index serves now."""

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.files.refine_store import PIECE_VECTORS
from heddle.engines.vector.ivf.chunk_places import Places
from heddle.engines.vector.ivf.early_stop.known_hits import KnownHits
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.recall.exact_index import Piece
from heddle.engines.vector.search import SortedHits


class ComparedLists:
    """A ComparedIndex over a corpus's lists; another index may take their place between steps.

    Args:
        corpus: serves the lists.
    """

    def __init__(self, corpus: FollowedIvf) -> None:
        self._corpus = corpus

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        return self._corpus.revision

    @property
    def list_sizes(self) -> NDArray[np.int64]:
        """Vectors in each inverted list, [nlist]."""
        return self._corpus.scanner.list_sizes

    @property
    def vectors_per_look(self) -> int:
        """How many vectors are scanned in the time it takes to ask whether a search may stop."""
        return self._corpus.scanner.kind.vectors_per_look

    def hits(
        self,
        queries: NDArray[np.float32],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        topk: int,
    ) -> SortedHits:
        """Return what running heaps hold as hits; see `IvfScanner.hits`."""
        return self._corpus.scanner.hits(queries, distances, labels, topk)

    def compare_piece(
        self,
        query: NDArray[np.float32],
        first: int,
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> Piece:
        """Compare a prepared query with the next vectors exactly; see `ComparedIndex`.

        A piece begins at a row of the refine store, or at a list.
        """
        if self._corpus.live.refine is not None:
            return self._corpus.live.refine.compare_piece(query, first, distances, labels)
        scanner = self._corpus.scanner
        sizes = scanner.list_sizes
        ends = np.cumsum(sizes[first:])
        count = 1 + int(np.searchsorted(ends, PIECE_VECTORS))
        lists = np.arange(first, min(first + count, len(sizes)))
        if len(lists):
            scanner.scan_on_host(query, lists[None], distances, labels)
        stop = first + len(lists)
        return Piece(stop % len(sizes), int(sizes[lists].sum()))

    def centroid_distances(
        self, queries: NDArray[np.float32], lists: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return the squared distances of each query to the centroids of its lists, [n, w]."""
        distances = self._corpus.scanner.centroid_distances(queries)
        return np.take_along_axis(distances, lists, axis=1)

    def lists_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the inverted list of each chunk, as of a while ago, [m]; -1 = unknown."""
        return self._corpus.places.lists_of(chunk_ids)

    def known(self, query: NDArray[np.float32], chunk_ids: NDArray[np.int64]) -> KnownHits:
        """Compare a prepared query [1, d] with chunks as far as the index has them, [1, h]."""
        places = self._corpus.places.of(chunk_ids)
        if self._corpus.live.refine is not None:
            distances = self._corpus.live.refine.distances(query, places.labels[None])
        else:
            distances = self._distances_at(places, query)[None]
        chunk_ids = np.where(places.labels < 0, -1, chunk_ids)
        return KnownHits(chunk_ids[None], places.labels[None], distances)

    def _distances_at(self, places: Places, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the squared distances to whole vectors, inf where there is none, [m]."""
        ivf = self._corpus.live.ivf
        vectors = np.full((len(places.lists), query.shape[1]), np.inf, np.float32)
        for number in np.flatnonzero(places.labels >= 0).tolist():
            ivf.reconstruct_from_offset(
                int(places.lists[number]),
                int(places.offsets[number]),
                faiss.swig_ptr(vectors[number]),
            )
        differences = vectors - query
        distances: NDArray[np.float32] = np.einsum("md,md->m", differences, differences)
        return distances
