"""Memory that one step frees stays with the process, for the next step to take."""

import ctypes
from collections.abc import Callable
from typing import Final

# mallopt's parameters and the largest threshold that glibc takes (malloc.h)
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_THRESHOLD_BYTES: Final = 32 << 20
KEPT_BYTES_MAX: Final = 512 << 20  # more free memory than this at the heap's end is given back


def keep_freed_memory() -> bool:
    """Let the allocator keep what the steps' scratch tensors take, up to `KEPT_BYTES_MAX`.

    As it comes, glibc maps large tensors anew or gives them back to the system when they are freed,
    so the next step meets every page of 4 KiB for the first time, and each costs a page fault.
    Weights and pools are larger than the threshold: they are mapped, and given back, as before.

    Mutates: the whole process's allocator.
    Returns: whether it could be set; only glibc has these settings.
    """
    mallopt: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wanted = ((_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES), (_M_TRIM_THRESHOLD, KEPT_BYTES_MAX))
    return all(mallopt(parameter, value) == 1 for parameter, value in wanted)
