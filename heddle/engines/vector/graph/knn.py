"""The nearest neighbours of every vector among those in the nearest clusters, as GEMMs."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

CELLS_MAX: Final = 1 << 22  # distances at once: 64 MiB with what choosing among them takes
OTHERS_MAX: Final = 1 << 16  # vectors that a cluster's members are compared with
NO_CLUSTER: Final = -1  # of a vector that has no neighbours and is none


class Neighbours(NamedTuple):
    """Of some rows `of` [m], the nearest first.

    Shapes: rows [m, k] int32, -1 = none; distances [m, k].
    """

    of: NDArray[np.int64]
    rows: NDArray[np.int32]
    distances: NDArray[np.float32]


def near_neighbours(
    vectors: NDArray[np.float32],
    centroids: NDArray[np.float32],
    lists: NDArray[np.int64],
    k: int,
    near_lists: int,
) -> Iterator[Neighbours]:
    """Yield an approximate kNN graph: each cluster's members against those of the nearest ones.

    A part of a cluster at a time, so the memory needed doesn't grow with the corpus.

    Args:
        vectors: what is searched among itself.
        centroids: of the clusters.
        lists: the cluster of each vector, NO_CLUSTER = it is left out.
        k: neighbours of each row.
        near_lists: clusters that are looked at for each cluster, itself among them, but no more
            than hold `OTHERS_MAX` vectors. They decide how good the graph is: too few of them cost
            recall that no search gets back.
    Shapes: vectors [n, d]; centroids [nlist, d]; lists [n].
    """
    near = faiss.knn(centroids, centroids, min(near_lists, len(centroids)))[1]
    order = np.argsort(lists, kind="stable")
    _, *members = np.split(order, np.searchsorted(lists[order], np.arange(len(centroids))))
    norms = np.einsum("nd,nd->n", vectors, vectors)
    for number, rows in enumerate(members):
        if not len(rows):
            continue
        others = _others(members, near[number])
        their_vectors, their_norms = vectors[others], norms[others]
        piece = max(1, CELLS_MAX // len(others))
        for first in range(0, len(rows), piece):
            of = rows[first : first + piece]
            # NumPy's own product: FAISS multiplies few queries with many vectors in small blocks.
            distances = norms[of, None] + their_norms - 2 * (vectors[of] @ their_vectors.T)
            distances[of[:, None] == others] = np.inf  # itself
            yield _kept(of, others, distances, k)


def _others(members: list[NDArray[np.int64]], near: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the members of the nearest clusters, a whole one at least."""
    ends = np.cumsum([len(members[number]) for number in near])
    count = max(1, int(np.searchsorted(ends, OTHERS_MAX, side="right")))
    return np.concatenate([members[number] for number in near[:count]])


def _kept(
    of: NDArray[np.int64], others: NDArray[np.int64], distances: NDArray[np.float32], k: int
) -> Neighbours:
    found = np.full((len(of), k), -1, np.int32), np.full((len(of), k), np.inf, np.float32)
    width = min(k, len(others) - 1)
    if width:
        places = _nearest(distances, width)
        found[0][:, :width] = others[places]
        found[1][:, :width] = np.take_along_axis(distances, places, axis=1)
    return Neighbours(of, *found)


def _nearest(distances: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the places of the k smallest values of each row, ascending, [n, k]."""
    places = np.argpartition(distances, k - 1, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(distances, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)
