"""Weights in huge pages: of small ones a CPU has to look up too many addresses. (ADR 45)"""

import ctypes
import logging
from collections.abc import Iterable
from typing import Final

HUGE_PAGE_BYTES: Final = 2 << 20
BYTES_MAX: Final = 4 << 30  # moving takes a second and a half for each GiB, once
_MADV_COLLAPSE: Final = 25  # Linux 6.1: at once, in spite of the system's setting
log = logging.getLogger(__name__)


def move_to_huge_pages(spans: Iterable[tuple[int, int]]) -> int:
    """Have the system move memory into huge pages, where it can; what lies there stays the same.

    Args:
        spans: addresses [first, stop) of what is read often. Those that lie close to one another
            are moved with what is between them: together they fill pages that each would not.
    Returns: bytes that were moved; 0 where the system has no such call.
    """
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None:
        return 0
    moved = 0
    for first, stop in whole_pages(spans):
        count = min(stop - first, BYTES_MAX - moved)
        if not madvise(ctypes.c_void_p(first), ctypes.c_size_t(count), _MADV_COLLAPSE):
            moved += count
    log.info("%d MiB of weights lie in huge pages", moved >> 20)
    return moved


def whole_pages(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the huge pages that lie wholly in spans, or between spans that are close."""
    joined: list[tuple[int, int]] = []
    for first, stop in sorted(spans):
        if joined and first - joined[-1][1] < HUGE_PAGE_BYTES // 2:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((first, stop))
    pages = (
        (-(-first // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES, stop // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES)
        for first, stop in joined
    )
    return [(first, stop) for first, stop in pages if first < stop]
