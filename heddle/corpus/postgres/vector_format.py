"""Vectors in the binary format of pgvector."""

import struct

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.adapt import Dumper


class VectorValue:
    """A vector as a value of a statement; a cast there says of which of pgvector's types.

    Args:
        values: the vector, [d].
        is_half: whether it is a `halfvec`, else a `vector`.
    """

    __slots__ = ("data",)

    def __init__(self, values: NDArray[np.float32], *, is_half: bool = False) -> None:
        self.data = vector_bytes(values, is_half=is_half)


def vector_bytes(values: NDArray[np.float32], *, is_half: bool = False) -> bytes:
    """Return a vector, [d], as pgvector receives it: length, nothing, numbers; all big-endian."""
    numbers = values.astype(">f2" if is_half else ">f4").tobytes()
    return struct.pack(">hh", len(values), 0) + numbers


class _VectorDumper(Dumper):
    format = psycopg.pq.Format.BINARY

    def dump(self, obj: VectorValue) -> bytes:
        return obj.data


psycopg.adapters.register_dumper(VectorValue, _VectorDumper)
