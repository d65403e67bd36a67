"""The nearest neighbours of every vector among those in the nearest clusters, as GEMMs."""

from collections.abc import Callable
from typing import NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

OnProgress = Callable[[int, int], None]
"""Hears how many rows of how many are done."""


class Neighbours(NamedTuple):
    """Of each row, nearest first. Shapes: rows [n, k] int32, -1 = none; distances [n, k]."""

    rows: NDArray[np.int32]
    distances: NDArray[np.float32]


def knn_graph(
    vectors: NDArray[np.float32],
    centroids: NDArray[np.float32],
    lists: NDArray[np.int64],
    k: int,
    near_lists: int,
    on_progress: OnProgress,
) -> Neighbours:
    """Return an approximate kNN graph: each cluster's members against those of the nearest ones.

    Args:
        vectors: what is searched among itself.
        centroids: of the clusters.
        lists: the cluster of each vector.
        k: neighbours of each row.
        near_lists: clusters that are looked at for each cluster, itself among them. They decide
            how good the graph is: too few of them cost recall that no search gets back.
        on_progress: hears of each finished cluster.
    Shapes: vectors [n, d]; centroids [nlist, d]; lists [n].
    """
    count = len(vectors)
    near = faiss.knn(centroids, centroids, min(near_lists, len(centroids)))[1]
    order = np.argsort(lists, kind="stable")
    members = np.split(order, np.searchsorted(lists[order], np.arange(1, len(centroids))))
    norms = np.einsum("nd,nd->n", vectors, vectors)
    found = Neighbours(np.full((count, k), -1, np.int32), np.full((count, k), np.inf, np.float32))
    done = 0
    for number, rows in enumerate(members):
        if not len(rows):
            continue
        others = np.concatenate([members[other] for other in near[number]])
        # NumPy's own product: FAISS multiplies few queries with many vectors in small blocks.
        distances = norms[rows, None] + norms[others] - 2 * (vectors[rows] @ vectors[others].T)
        distances[rows[:, None] == others] = np.inf  # itself
        width = min(k, len(others) - 1)
        if width:
            places = _nearest(distances, width)
            found.rows[rows, :width] = others[places]
            found.distances[rows, :width] = np.take_along_axis(distances, places, axis=1)
        done += len(rows)
        on_progress(done, count)
    return found


def _nearest(distances: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the places of the k smallest values of each row, ascending, [n, k]."""
    places = np.argpartition(distances, k - 1, axis=1)[:, :k]
    order = np.argsort(np.take_along_axis(distances, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)
