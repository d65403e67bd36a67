"""Distances that FAISS doesn't give from Python as fast, compiled by Numba.

A row's result never depends on the rows beside it, in any batch: it is summed in one order.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.kernels.half_kernels import distance, prefetch_vector

BLOCK = 16  # centroids: 24 KiB of 384 dimensions
AHEAD = 4  # vectors that are asked for before it is their turn


@numba.njit(fastmath=True, cache=True)
def centroid_distances(
    centroids: NDArray[np.float32], queries: NDArray[np.float32], out: NDArray[np.float32]
) -> None:
    """Squared L2 of each query to each centroid: [c, d], [n, d] float32 -> out [n, c] float32.

    All queries meet a block of centroids while that is in the first cache, four at a time, which
    share what is read of the query. The last ones of a block alone; which those are is the same for
    any queries.
    """
    count, dims = centroids.shape
    for block in range(0, count, BLOCK):
        stop = min(block + BLOCK, count)
        for i in range(len(queries)):
            for j in range(block, stop - 3, 4):
                a = b = c = d = np.float32(0)
                for k in range(dims):
                    at = queries[i, k]
                    a += (centroids[j, k] - at) ** 2
                    b += (centroids[j + 1, k] - at) ** 2
                    c += (centroids[j + 2, k] - at) ** 2
                    d += (centroids[j + 3, k] - at) ** 2
                out[i, j], out[i, j + 1], out[i, j + 2], out[i, j + 3] = a, b, c, d
            for j in range(stop - (stop - block) % 4, stop):
                total = np.float32(0)
                for k in range(dims):
                    total += (centroids[j, k] - queries[i, k]) ** 2
                out[i, j] = total


@numba.njit(cache=True)
def row_distances(
    mapped: NDArray[np.uint16],
    added: NDArray[np.uint16],
    rows: NDArray[np.int64],
    queries: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Squared L2 of each query to some stored rows, inf for row -1.

    Shapes: mapped [m, d] and added [a, d] uint16, the bits of float16: rows [0, m) and those from
    m on; rows [n, r] int64; queries [n, d] float32; out [n, r] float32.
    """
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            if j + AHEAD < rows.shape[1]:
                coming = rows[i, j + AHEAD]
                if coming >= len(mapped):
                    prefetch_vector(added, coming - len(mapped))
                elif coming >= 0:
                    prefetch_vector(mapped, coming)
            row = rows[i, j]
            if row < 0:
                out[i, j] = np.inf
            elif row < len(mapped):
                out[i, j] = distance(mapped, row, queries[i])
            else:
                out[i, j] = distance(added, row - len(mapped), queries[i])


# Compiled when it is imported: it is first needed in the middle of a step.
@numba.njit("UniTuple(int64, 2)(int64[::1], uint8[::1], int64, int64, int64[::1])", cache=True)
def rows_to_compare(
    labels: NDArray[np.int64],
    allowed: NDArray[np.uint8],
    first: int,
    stop: int,
    out: NDArray[np.int64],
) -> tuple[int, int]:
    """Write the rows of [first, stop) whose labels may be found into `out`, until it is full.

    Shapes: labels [n] int64, -1 = nothing is there; `allowed` bits, bit i says whether label i may
    be found, no bits = each may; out [m] int64. Returns how many, and the row to go on with.
    """
    count, row = 0, first
    while row < stop and count < len(out):
        label = labels[row]
        is_known = label >= 0 and (len(allowed) == 0 or label >> 3 < len(allowed))
        if is_known and (len(allowed) == 0 or allowed[label >> 3] >> (label & 7) & 1):
            out[count] = row
            count += 1
        row += 1
    return count, row
