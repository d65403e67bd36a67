"""Squared distances summed in the orders of FAISS, compiled by Numba.

Float sums depend on their order. FAISS has one order for each instruction set that it was built for
and picks the widest that the processor has. A scan of ours gives FAISS's distances bit for bit only
in the same order, which a self-test finds out (`engines/vector/ivf/stepping_check.py`).
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

Distance = Callable[[NDArray[np.float32], int, NDArray[np.float32], int], np.float32]
"""Squared L2 of vector `i` of [m, d] to query `row` of [n, d]: (vectors, i, queries, row)."""


class SumOrder(IntEnum):
    """An order of sums, by the instruction set for which FAISS was compiled."""

    SSE = 4
    AVX2 = 8
    AVX512 = 16


@intrinsic
def _fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ANN401 - Numba's own objects
    """Return a * b + c, rounded once; float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), generate


def _distance(lanes: int, *, is_fused: bool, is_rest_fused: bool) -> Distance:
    """Compile squared L2 for one order of sums.

    `lanes` sums run side by side. They are added by halves; when half of them are left, dimensions
    that fill half a step are taken in. What then remains of the dimensions is added one by one.
    `is_fused` says whether a product of a whole step is added without being rounded first, and
    `is_rest_fused` the same of the dimensions behind the whole steps. Found by comparing all 76
    dimensions tried, 1 to 69 among them, with faiss-cpu 1.15.1 at each of its SIMD levels.
    """
    lanes, half = int(lanes), lanes // 2  # compiled as constants

    def squared(
        vectors: NDArray[np.float32], i: int, queries: NDArray[np.float32], row: int
    ) -> np.float32:
        dims = queries.shape[1]
        done = dims // lanes * lanes
        sums = np.zeros(lanes, np.float32)
        for j in range(0, done, lanes):
            for lane in range(lanes):
                difference = vectors[i, j + lane] - queries[row, j + lane]
                if is_fused:
                    sums[lane] = _fused(difference, difference, sums[lane])
                else:
                    sums[lane] += difference * difference
        for lane in range(half):
            sums[lane] += sums[lane + half]
        if dims - done >= half:
            for lane in range(half):
                difference = vectors[i, done + lane] - queries[row, done + lane]
                if is_rest_fused:
                    sums[lane] = _fused(difference, difference, sums[lane])
                else:
                    sums[lane] += difference * difference
            done += half
        width = half // 2
        while width:
            for lane in range(width):
                sums[lane] += sums[lane + width]
            width //= 2
        total: np.float32 = sums[0]
        for j in range(done, dims):
            difference = vectors[i, j] - queries[row, j]
            if is_rest_fused:
                total = _fused(difference, difference, total)
            else:
                total += difference * difference
        return total

    # Numba names compiled code, and the files of its cache, after the function: without a name of
    # its own, one order's code was taken for another's.
    squared.__name__ = squared.__qualname__ = f"squared_{lanes}"
    compiled: Distance = numba.njit(cache=True, nogil=True)(squared)
    return compiled


_sse = _distance(SumOrder.SSE, is_fused=False, is_rest_fused=False)
_avx2 = _distance(SumOrder.AVX2, is_fused=False, is_rest_fused=True)
_avx512 = _distance(SumOrder.AVX512, is_fused=True, is_rest_fused=True)


@numba.njit(cache=True, nogil=True)
def squared_l2(
    vectors: NDArray[np.float32], i: int, queries: NDArray[np.float32], row: int, order: int
) -> np.float32:
    """Return the squared L2 of vector i to query `row`, summed in this `SumOrder`.

    Shapes: vectors [m, d] and queries [n, d], float32.
    """
    if order == SumOrder.AVX512:
        return _avx512(vectors, i, queries, row)
    if order == SumOrder.AVX2:
        return _avx2(vectors, i, queries, row)
    return _sse(vectors, i, queries, row)
