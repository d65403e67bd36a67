"""Distances to stored float16 vectors, compiled by Numba.

Vectors are kept as their bits in uint16, because Numba has no float16 on a CPU. A distance is a
load from memory before it is arithmetic: hence half the bytes, and a prefetch a few vectors ahead.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

LINE_BYTES = 64

Bits = NDArray[np.uint16]
"""Vectors [n, d] as the bits of float16."""


@intrinsic
def _half_to_float(typing_context: Any, bits: Any) -> Any:  # noqa: ANN401 - Numba's own objects
    """Widen the bits of a float16 to a float32, one instruction on any CPU with AVX2 or Neon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        half = builder.bitcast(arguments[0], ir.HalfType())
        return builder.fpext(half, ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def _prefetch(typing_context: Any, rows: Any, row: Any, offset: Any) -> Any:  # noqa: ANN401
    """Ask for the cache line at `offset` bytes in a row of a 2-d array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        start = builder.bitcast(array.data, ir.IntType(8).as_pointer())
        line = builder.gep(start, [builder.add(builder.mul(arguments[1], stride), arguments[2])])
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [line.type, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, keep, data = (ir.Constant(word, value) for value in (0, 3, 1))
        builder.call(function, [line, read, keep, data])
        return context.get_dummy_value()

    return types.void(rows, types.int64, types.int64), generate


@numba.njit(fastmath=True, cache=True)
def distance(vectors: Bits, row: int, query: NDArray[np.float32]) -> np.float32:
    """Squared L2 between a stored vector and a query: [n, d] uint16 bits, [d] float32."""
    total = np.float32(0)
    for i in range(vectors.shape[1]):
        difference = _half_to_float(vectors[row, i]) - query[i]
        total += difference * difference
    return total


@numba.njit(fastmath=True, cache=True)
def prefetch_vector(vectors: Bits, row: int) -> None:
    for offset in range(0, 2 * vectors.shape[1], LINE_BYTES):
        _prefetch(vectors, np.int64(row), offset)
