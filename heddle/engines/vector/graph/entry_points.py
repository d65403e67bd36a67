"""The entry points of a graph in groups: the nearest ones are found without comparing them all."""

import math

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.graph.kernels import EntryPoints
from heddle.engines.vector.kernels.half_kernels import Bits

KMEANS_ITERATIONS, KMEANS_SEED = 10, 1234


def entry_points(nodes: NDArray[np.int32], vectors: Bits) -> EntryPoints:
    """Return entry points in about as many groups as these have members.

    Args:
        nodes: the entry points' rows, [e].
        vectors: of all rows, float16 bits [n, d].
    """
    mine = np.ascontiguousarray(vectors[nodes])
    if not len(nodes):
        return EntryPoints(nodes, mine, np.zeros(1, np.int64), mine)
    wide = mine.view(np.float16).astype(np.float32)
    kmeans = faiss.Kmeans(
        wide.shape[1],
        max(1, round(math.sqrt(len(nodes)))),
        niter=KMEANS_ITERATIONS,
        seed=KMEANS_SEED,
        min_points_per_centroid=1,
    )
    kmeans.train(wide)
    assert kmeans.centroids is not None, "k-means has no centroids after its training"
    centres: NDArray[np.float32] = kmeans.centroids
    groups = faiss.knn(wide, centres, 1)[1][:, 0]
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=len(centres))
    return EntryPoints(
        nodes[order],
        np.ascontiguousarray(mine[order]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        centres.astype(np.float16).view(np.uint16),
    )
