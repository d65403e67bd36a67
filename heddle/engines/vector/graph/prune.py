"""From a kNN graph to few, well-spread edges of a fixed degree, compiled by Numba.

An edge is kept unless a nearer kept one leads closer to its target (the relative neighbourhood
rule of HNSW and Vamana). Then each edge's reverse is added, so that a vector that is no other's
near neighbour can still be reached, and the edges are pruned again.
"""

import numba
import numpy as np
from numpy.typing import NDArray

import heddle.engines.vector.kernels  # noqa: F401 - says where compiled code is kept

NOBODY = -1
REVERSE_SHARE = 4  # edges that come back to a node, at most, in degrees

Vectors = NDArray[np.float32]
Nodes = NDArray[np.int32]


@numba.njit(fastmath=True, cache=True)
def _distance(vectors: Vectors, a: int, b: int) -> np.float32:
    total = np.float32(0)
    for i in range(vectors.shape[1]):
        difference = vectors[a, i] - vectors[b, i]
        total += difference * difference
    return total


@numba.njit(fastmath=True, cache=True)
def _spread(
    vectors: Vectors, candidates: Nodes, distances: NDArray[np.float32], kept: Nodes
) -> int:
    """Write the edges to keep into `kept` and return how many; candidates are nearest first."""
    count = 0
    for i in range(len(candidates)):
        node = candidates[i]
        if count == len(kept) or node == NOBODY:
            break
        is_kept = True
        for j in range(count):
            if kept[j] == node or _distance(vectors, kept[j], node) <= distances[i]:
                is_kept = False
                break
        if is_kept:
            kept[count] = node
            count += 1
    return count


@numba.njit(cache=True)
def _contains(nodes: Nodes, count: int, node: int) -> bool:
    return bool(np.any(nodes[:count] == node))


@numba.njit(cache=True, nogil=True)
def prune_rows(
    vectors: Vectors,
    of: NDArray[np.int64],
    rows: Nodes,
    distances: NDArray[np.float32],
    forward: Nodes,
) -> None:
    """Keep well-spread edges of the rows `of` [m] in `forward` [n, degree]; it comes full of -1.

    `rows` and `distances` are their neighbours, [m, k].
    """
    for i in range(len(of)):
        _spread(vectors, rows[i], distances[i], forward[of[i]])


@numba.njit(cache=True, nogil=True)
def reversed_edges(forward: Nodes) -> Nodes:
    """Return who points at each node, [n, REVERSE_SHARE * degree], the nearest ones first."""
    count, degree = forward.shape
    width = REVERSE_SHARE * degree
    backward = np.full((count, width), NOBODY, np.int32)
    used = np.zeros(count, np.int32)
    for i in range(degree):
        for row in range(count):
            node = forward[row, i]
            if node != NOBODY and used[node] < width:
                backward[node, used[node]] = row
                used[node] += 1
    return backward


@numba.njit(cache=True, nogil=True)
def merge_rows(
    vectors: Vectors, forward: Nodes, backward: Nodes, first: int, stop: int, merged: Nodes
) -> None:
    """Choose among edges of both directions for rows [first, stop), and fill up with the nearest.

    `merged` [n, degree] comes full of -1.
    """
    degree = forward.shape[1]
    room = degree + backward.shape[1]
    nodes, distances = np.empty(room, np.int32), np.empty(room, np.float32)
    for row in range(first, stop):
        count = 0
        for i in range(room):
            node = forward[row, i] if i < degree else backward[row, i - degree]
            if node != NOBODY and not _contains(nodes, count, node):
                nodes[count], distances[count] = node, _distance(vectors, row, node)
                count += 1
        order = np.argsort(distances[:count], kind="mergesort")
        nearest, near = nodes[:count][order], distances[:count][order]
        kept = _spread(vectors, nearest, near, merged[row])
        for i in range(count):
            if kept == degree:
                break
            if not _contains(merged[row], kept, nearest[i]):
                merged[row, kept] = nearest[i]
                kept += 1
