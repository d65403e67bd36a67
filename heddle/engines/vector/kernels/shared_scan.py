"""Scans of whole vectors in which queries share what is read, compiled by Numba.

A scan of whole vectors waits for memory: a vector takes longer to come than to be compared. Queries
that want the same list in one sub-stage are compared with each vector while it is there, four at a
time. Such a comparison may round in any order: it only rules vectors out for certain. The
rest are measured again as FAISS does it, so that the hits are FAISS's bit for bit, however
many queries share the list.
"""

import numba
import numpy as np
from numba import carray
from numpy.typing import NDArray

from heddle.engines.vector.kernels.pointers import float32_pointer, int64_pointer
from heddle.engines.vector.kernels.sum_order import squared_l2

BLOCK = 64  # vectors that stay in the cache while all queries are compared with them
ROUNDING = 2.0**-22  # of a sum, at most, for each of its terms
TOGETHER = 4


@numba.njit(cache=True, nogil=True)
def scan_shared(
    codes: NDArray[np.int64],
    ids: NDArray[np.int64],
    sizes: NDArray[np.int64],
    allowed: NDArray[np.uint8],
    queries: NDArray[np.float32],
    lists: NDArray[np.int64],
    distances: NDArray[np.float32],
    labels: NDArray[np.int64],
    order: int,
) -> None:
    """Bring the vectors of lists into the heaps of the queries that scan them.

    Of equally far vectors the lower id is nearer, so the hits don't depend on the order of lists.

    Shapes: codes, ids and sizes [nlist]: the addresses of each list's vectors, float32 [size, d],
    and of their ids, int64, and its size; `allowed` bits, bit i says whether id i may be found, or
    empty = every one; queries [n, d]; lists [n, w], what each scans, -1 = nothing; distances and
    labels [n, k], the running heaps, the farthest first; `order`, the `SumOrder` of the distances.
    Mutates: distances and labels.
    """
    first, last = len(sizes), -1  # a part of a scan asks for lists whose numbers lie close
    for asked in lists.flat:
        if asked >= 0:
            first, last = min(first, int(asked)), max(last, int(asked))
    starts = np.zeros(max(0, last - first + 1) + 1, np.int64)
    for asked in lists.flat:
        if asked >= 0:
            starts[asked - first + 1] += 1
    starts = np.cumsum(starts)
    rows = np.empty(starts[-1], np.int64)
    filled = starts[:-1].copy()
    for row in range(lists.shape[0]):
        for asked in lists[row]:
            if asked >= 0:
                rows[filled[asked - first]] = row
                filled[asked - first] += 1
    for number in range(first, last + 1):
        sharing = rows[starts[number - first] : starts[number - first + 1]]
        if len(sharing):
            vectors = carray(float32_pointer(codes[number]), (sizes[number], queries.shape[1]))
            labels_here = carray(int64_pointer(ids[number]), (sizes[number],))
            _scan_list(vectors, labels_here, allowed, queries, sharing, distances, labels, order)


@numba.njit(cache=True, nogil=True)
def _scan_list(
    vectors: NDArray[np.float32],
    ids: NDArray[np.int64],
    allowed: NDArray[np.uint8],
    queries: NDArray[np.float32],
    rows: NDArray[np.int64],
    distances: NDArray[np.float32],
    labels: NDArray[np.int64],
    order: int,
) -> None:
    margin = np.float32(1 + ROUNDING * queries.shape[1])
    last = len(rows) - 1
    for block in range(0, len(vectors), BLOCK):
        stop = min(block + BLOCK, len(vectors))
        for first in range(0, len(rows), TOGETHER):
            if first == last:
                row = rows[first]
                for i in range(block, stop):
                    near = _roughly(vectors, i, queries, row)
                    if near <= distances[row, 0] * margin:
                        _offer(vectors, i, ids[i], allowed, queries, row, distances, labels, order)
                continue
            a, b = rows[first], rows[first + 1]
            c, d = rows[min(first + 2, last)], rows[min(first + 3, last)]
            for i in range(block, stop):
                near_a, near_b, near_c, near_d = _roughly_four(vectors, i, queries, a, b, c, d)
                if near_a <= distances[a, 0] * margin:
                    _offer(vectors, i, ids[i], allowed, queries, a, distances, labels, order)
                if near_b <= distances[b, 0] * margin:
                    _offer(vectors, i, ids[i], allowed, queries, b, distances, labels, order)
                if first + 2 <= last and near_c <= distances[c, 0] * margin:
                    _offer(vectors, i, ids[i], allowed, queries, c, distances, labels, order)
                if first + 3 <= last and near_d <= distances[d, 0] * margin:
                    _offer(vectors, i, ids[i], allowed, queries, d, distances, labels, order)


@numba.njit(cache=True, nogil=True, fastmath=True)
def _roughly(
    vectors: NDArray[np.float32], i: int, queries: NDArray[np.float32], row: int
) -> np.float32:
    total = np.float32(0)
    for j in range(queries.shape[1]):
        difference = vectors[i, j] - queries[row, j]
        total += difference * difference
    return total


@numba.njit(cache=True, nogil=True, fastmath=True)
def _roughly_four(
    vectors: NDArray[np.float32],
    i: int,
    queries: NDArray[np.float32],
    a: int,
    b: int,
    c: int,
    d: int,
) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    sum_a = sum_b = sum_c = sum_d = np.float32(0)
    for j in range(queries.shape[1]):
        value = vectors[i, j]
        difference = value - queries[a, j]
        sum_a += difference * difference
        difference = value - queries[b, j]
        sum_b += difference * difference
        difference = value - queries[c, j]
        sum_c += difference * difference
        difference = value - queries[d, j]
        sum_d += difference * difference
    return sum_a, sum_b, sum_c, sum_d


@numba.njit(cache=True, nogil=True)
def _offer(
    vectors: NDArray[np.float32],
    i: int,
    label: int,
    allowed: NDArray[np.uint8],
    queries: NDArray[np.float32],
    row: int,
    distances: NDArray[np.float32],
    labels: NDArray[np.int64],
    order: int,
) -> None:
    """Put a vector into a heap if it is nearer than the farthest there."""
    if len(allowed) and not (label >> 3 < len(allowed) and allowed[label >> 3] >> (label & 7) & 1):
        return
    distance = squared_l2(vectors, i, queries, row, order)
    if distance > distances[row, 0]:
        return
    if distance == distances[row, 0] and not label < labels[row, 0]:
        return
    size, hole = distances.shape[1], 0
    while True:  # the farthest leaves; the hole sinks to where the new one belongs
        child = 2 * hole + 1
        if child >= size:
            break
        other = child + 1
        if other < size and _is_farther(
            distances[row, other], labels[row, other], distances[row, child], labels[row, child]
        ):
            child = other
        if not _is_farther(distances[row, child], labels[row, child], distance, label):
            break
        distances[row, hole], labels[row, hole] = distances[row, child], labels[row, child]
        hole = child
    distances[row, hole], labels[row, hole] = distance, label


@numba.njit(cache=True, nogil=True)
def _is_farther(distance: np.float32, label: int, than: np.float32, than_label: int) -> bool:
    return bool(distance > than or (distance == than and label > than_label))
