"""A search graph over a fixed set of vectors, and how it is built."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InputError
from heddle.engines.vector.files.index_kind import GRAPH_DEGREE
from heddle.engines.vector.graph import prune
from heddle.engines.vector.graph.equal_rows import first_equals, join_equals
from heddle.engines.vector.graph.knn import NO_CLUSTER, Neighbours, near_neighbours
from heddle.engines.vector.graph.progress import OnPhase

KNN_WIDTH, NEAR_LISTS = 192, 96
PIECE_ROWS = 4096  # rows that are pruned between two reports of progress
MEMBERS_PER_LIST = 128
KMEANS_ITERATIONS = 10
KMEANS_SEED = 1234
FindNeighbours = Callable[
    [NDArray[np.float32], NDArray[np.float32], NDArray[np.int64], int, int], Iterator[Neighbours]
]
"""As `near_neighbours`: vectors, centroids, the cluster of each vector, k, clusters to look at."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphIndex:
    """Vectors, the edges between them, and where a search enters.

    Shapes: vectors [n, d] float16; neighbours [n, degree] int32, -1 = none; labels [n] int64,
    the chunk ids; entries [nlist] int32, the row nearest to each cluster's centroid. All may lie
    in a mapped file. `revision` is that of the corpus whose vectors these are, `embedder` what
    made them, `origin` its `VectorSource.origin`.
    """

    vectors: NDArray[np.float16]
    neighbours: NDArray[np.int32]
    labels: NDArray[np.int64]
    entries: NDArray[np.int32]
    revision: int = 0
    embedder: str = ""
    origin: str = ""

    @property
    def count(self) -> int:
        """Vectors in the graph."""
        return len(self.vectors)

    @property
    def dims(self) -> int:
        """Length of a vector."""
        return int(self.vectors.shape[1])


def build_graph(
    vectors: NDArray[np.float32],
    labels: NDArray[np.int64],
    centroids: NDArray[np.float32] | None = None,
    *,
    revision: int = 0,
    embedder: str = "",
    origin: str = "",
    degree: int = GRAPH_DEGREE,
    find_neighbours: FindNeighbours = near_neighbours,
    on_phase: OnPhase = lambda phase, done, count: None,
) -> GraphIndex:
    """Return a graph: an IVF-GEMM kNN graph, pruned to a fixed degree.

    Args:
        vectors: to be searched, normalised.
        labels: their ids in hits.
        centroids: of an IVF index over the same vectors; None = clustered here.
        revision: of the corpus that they come from.
        embedder: names what made them.
        origin: of that corpus, its `VectorSource.origin`.
        degree: edges of each row.
        find_neighbours: finds each row's neighbours.
        on_phase: hears how far it is.
    Shapes: vectors [n, d]; labels [n]; centroids [nlist, d].
    Raises:
        InputError: the vectors are none, not finite, or their labels repeat.
    """
    _check(vectors, labels)
    vectors = np.ascontiguousarray(vectors, np.float32)
    count = len(vectors)
    if centroids is None:
        centroids = _centroids(vectors)
    on_phase("clusters", count, count)
    distances, nearest = faiss.knn(vectors, centroids, 1)
    lists = nearest[:, 0]
    forward = np.full((count, degree), -1, np.int32)
    firsts = first_equals(vectors)
    is_first = firsts == np.arange(count)
    done, different = 0, int(is_first.sum())
    width = min(KNN_WIDTH, max(1, different - 1))
    compared = np.where(is_first, lists, NO_CLUSTER)
    for found in find_neighbours(vectors, centroids, compared, width, NEAR_LISTS):
        prune.prune_rows(vectors, found.of, found.rows, found.distances, forward)
        done += len(found.of)
        on_phase("neighbours", done, different)
    neighbours = _both_ways(vectors, forward, on_phase)
    join_equals(neighbours, firsts)
    return GraphIndex(
        vectors.astype(np.float16),
        neighbours,
        np.array(labels, np.int64),
        _entries(distances[:, 0], lists, len(centroids)),
        revision,
        embedder,
        origin,
    )


def _both_ways(
    vectors: NDArray[np.float32], forward: NDArray[np.int32], on_phase: OnPhase
) -> NDArray[np.int32]:
    """Return the edges of each row among those from it and those to it, [n, degree]."""
    count = len(forward)
    backward = prune.reversed_edges(forward)
    merged = np.full_like(forward, -1)
    for first in range(0, count, PIECE_ROWS):
        stop = min(first + PIECE_ROWS, count)
        prune.merge_rows(vectors, forward, backward, first, stop, merged)
        on_phase("edges", stop, count)
    return merged


def _check(vectors: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
    if vectors.ndim != 2 or not vectors.size:
        raise InputError(f"vectors: need at least one of [n, d], got {list(vectors.shape)}")
    if labels.shape != (len(vectors),) or len(np.unique(labels)) != len(labels):
        raise InputError(f"labels: need {len(vectors)} different ones, one for each vector")
    pieces = range(0, len(vectors), PIECE_ROWS)
    if not all(np.isfinite(vectors[first : first + PIECE_ROWS]).all() for first in pieces):
        raise InputError("vectors: contain NaN or infinite values; check what embedded them")


def _centroids(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    nlist = max(1, len(vectors) // MEMBERS_PER_LIST)
    kmeans = faiss.Kmeans(
        vectors.shape[1],
        nlist,
        niter=KMEANS_ITERATIONS,
        seed=KMEANS_SEED,
        min_points_per_centroid=1,
        max_points_per_centroid=64,
    )
    kmeans.train(vectors)
    assert kmeans.centroids is not None, "k-means has no centroids after its training"
    centroids: NDArray[np.float32] = kmeans.centroids
    return centroids


def _entries(
    distances: NDArray[np.float32], lists: NDArray[np.int64], nlist: int
) -> NDArray[np.int32]:
    """Return the member nearest to each centroid; clusters without members have no entry."""
    order = np.lexsort((distances, lists))
    firsts = np.searchsorted(lists[order], np.arange(nlist))
    is_used = np.bincount(lists, minlength=nlist) > 0
    return order[firsts[is_used]].astype(np.int32)
