"""Operations of the compiled kernel one after another, in one call. (ADR 62)"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

from heddle.kernels.quantized_kernel import Team


class Operation(NamedTuple):
    """A function of the kernel and its argument, whose last fields are counters."""

    function: ctypes.c_void_p
    work: ctypes.Structure


class TeamRun(NamedTuple):
    """What runs operations: the kernel's function, where threads meet, and the team."""

    run_operations: ctypes.c_void_p
    meet: ctypes.c_void_p
    run_on_team: Team


class _Operation(ctypes.Structure):
    """`struct operation` of the C source."""

    _fields_ = (
        ("run", ctypes.c_void_p),
        ("work", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),
        ("counters_count", ctypes.c_int64),
    )

    @classmethod
    def of(cls, operation: Operation) -> "_Operation":
        work = operation.work
        names = [name for name, *_ in type(work)._fields_ if name.startswith("next_")]
        address = ctypes.addressof(work)
        first = getattr(type(work), names[0]).offset
        return cls(operation.function, address, address + first, len(names))


class _Operations(ctypes.Structure):
    """`struct operations` of the C source."""

    _fields_ = (
        ("list", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("meet", ctypes.c_void_p),
        ("arrived", ctypes.c_int64),
    )


class Operations:
    """A list of operations, each of which begins once all threads are done with the one before.

    What their work points to has to be kept as long as this is.

    Args:
        team: what runs them.
        operations: what is run, in this order.
    """

    def __init__(self, team: TeamRun, operations: Sequence[Operation]) -> None:
        self._works = [operation.work for operation in operations]  # pointed to
        self._list = (_Operation * len(operations))(*map(_Operation.of, operations))
        self._all = _Operations(ctypes.addressof(self._list), len(operations), team.meet)
        self._team = team

    def run(self, threads: int) -> None:
        """Run them all. Mutates: what each of them writes."""
        self._team.run_on_team(self._team.run_operations, ctypes.byref(self._all), threads, 0)
