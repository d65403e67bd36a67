"""The compiled kernel's products with weights on a grid, behind `quantized_linear`. (ADR 47)"""

import ctypes
from collections.abc import Callable
from typing import NamedTuple

Team = Callable[[ctypes.c_void_p, object, int, int], None]


class QuantizedProduct(ctypes.Structure):
    """A product of rows with weights on a grid: `struct quantized` of the C source."""

    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("scratch_bytes", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("next_scratch", ctypes.c_int64),
        ("next_task", ctypes.c_int64),
    )


class Unpacking(ctypes.Structure):
    """Panels of weights that become numbers: `struct unpacking` of the C source."""

    _fields_ = (
        ("weights", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("panels", ctypes.c_int64),
        ("inputs", ctypes.c_int64),
        ("next_task", ctypes.c_int64),
    )


class QuantizedKernel(NamedTuple):
    """The functions, and torch's own team of threads, which runs them.

    Many rows have one function where the CPU multiplies bfloat16 or sums up products of 16 bits;
    elsewhere torch multiplies what another one unpacks.
    """

    multiply_quantized: ctypes.c_void_p
    run_on_team: Team
    multiply_many: ctypes.c_void_p | None = None
    unpack_panels: ctypes.c_void_p | None = None

    @classmethod
    def of(cls, library: ctypes.CDLL, team: Team) -> "QuantizedKernel":
        """Return the functions of a library that was compiled for one number type."""
        name = "multiply_many" if hasattr(library, "multiply_many") else "unpack_panels"
        own = {name: ctypes.cast(library[name], ctypes.c_void_p)}
        return cls(ctypes.cast(library.multiply_quantized, ctypes.c_void_p), team, **own)

    def multiply(self, product: QuantizedProduct, threads: int, *, is_many: bool) -> None:
        """Multiply up to 16 rows, or more of them. Mutates: its `out`."""
        function = self.multiply_many if is_many else self.multiply_quantized
        assert function is not None, "torch multiplies many rows here"
        product.next_scratch = product.next_task = 0
        self.run_on_team(function, ctypes.byref(product), threads, 0)

    def unpack(self, panels: Unpacking, threads: int) -> None:
        """Turn panels into numbers. Mutates: their `out`."""
        assert self.unpack_panels is not None, "the product of many rows reads panels itself"
        panels.next_task = 0
        self.run_on_team(self.unpack_panels, ctypes.byref(panels), threads, 0)
