"""Binds the memory of a process to a NUMA node, by the system's own calls. (set_mempolicy(2))

The calls have no wrapper in libc. They are made by their numbers where those are known, else
through libnuma where it is installed. A thread hands its policy on to the processes it starts.
"""

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

MPOL_DEFAULT: Final = 0
MPOL_BIND: Final = 2
NODES_MAX: Final = 1024  # the most that the kernel can be built for
LIBNUMA: Final = "libnuma.so.1"
_NUMBERS: Final = {  # machine -> numbers of set_mempolicy and get_mempolicy
    "x86_64": (238, 239),
    "aarch64": (237, 236),
    "riscv64": (237, 236),
}
_WORD_BITS: Final = 8 * ctypes.sizeof(ctypes.c_ulong)
_Mask = ctypes.c_ulong * (NODES_MAX // _WORD_BITS)


class MemoryPolicy(NamedTuple):
    """A thread's policy: its mode, and its nodes as a bit mask."""

    mode: int
    nodes: int


def binding_problem() -> str:
    """Return why memory can't be bound to a node here; "" = it can.

    Containers often forbid the call. Setting the policy that is in force already changes nothing
    and shows whether it may be set.
    """
    try:
        _set(_get())
    except OSError as error:
        return _words(error)
    return ""


@contextmanager
def memory_on(node: int) -> Iterator[str]:
    """Bind what this thread, and each process that it starts, takes of memory to a node.

    Yields: why that failed; "" = it is bound.

    Mutates: the thread's policy, until the block ends.
    """
    try:
        before = _get()
        _set(MemoryPolicy(MPOL_BIND, 1 << node))
    except OSError as error:
        yield _words(error)
        return
    try:
        yield ""
    finally:
        _set(before)


def _get() -> MemoryPolicy:
    mode, mask = ctypes.c_int(), _Mask()
    _call(1, ctypes.byref(mode), mask, ctypes.c_ulong(NODES_MAX), None, ctypes.c_ulong(0))
    nodes = sum(word << (_WORD_BITS * place) for place, word in enumerate(mask))
    return MemoryPolicy(mode.value, nodes)


def _set(policy: MemoryPolicy) -> None:
    mask, word = _Mask(), (1 << _WORD_BITS) - 1
    for place in range(len(mask)):
        mask[place] = policy.nodes >> (_WORD_BITS * place) & word
    # The kernel reads one bit less than the size says.
    size = 0 if policy.mode == MPOL_DEFAULT else NODES_MAX + 1
    _call(0, ctypes.c_int(policy.mode), mask if size else None, ctypes.c_ulong(size))


def _call(which: int, *arguments: object) -> None:
    """Make one of the two calls: 0 sets, 1 gets.

    Raises:
        OSError: the kernel refuses it, or there is no way to make it.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    numbers = _NUMBERS.get(platform.machine())
    if numbers is not None:
        library = ctypes.CDLL(None, use_errno=True)
        failed = library.syscall(ctypes.c_long(numbers[which]), *arguments)
    else:
        library = ctypes.CDLL(LIBNUMA, use_errno=True)  # OSError where it isn't installed
        failed = getattr(library, ("set_mempolicy", "get_mempolicy")[which])(*arguments)
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _words(error: OSError) -> str:
    if error.errno is None:
        return f"libnuma can't be loaded: {error}"
    name = errno.errorcode.get(error.errno, str(error.errno))
    return f"the system refuses set_mempolicy ({name}: {error.strerror})"
