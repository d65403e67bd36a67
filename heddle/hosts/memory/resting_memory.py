"""Freed memory of a process goes back to the system while it rests.

The C library keeps the room of tensors of many sizes: after a thousand questions the extractor's
lane holds 1.1 GB where 0.8 GB are in use.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Self

REST_S: Final = 2.0
GROWTH_BYTES_MIN: Final = 8 << 20
_RESIDENT: Final = 1  # field of /proc/PID/statm (proc(5))


class RestingMemory:
    """Trims the heap of a process that has rested for a while and has grown since the last time.

    Giving memory back costs tens of milliseconds, and the next work takes it anew, so little growth
    is left alone.

    Args:
        resident_bytes: how much memory the process holds.
        trim: gives back what is free.

    Mutates: `look` notes in `kept_bytes` what the process held after the last trim.
    """

    def __init__(self, resident_bytes: Callable[[], int], trim: Callable[[], object]) -> None:
        self._resident_bytes = resident_bytes
        self._trim = trim
        self._rests_since_s: float | None = None
        self.kept_bytes = 0

    @classmethod
    def of_this_process(cls) -> Self | None:
        """Return that of this process; None where the C library gives nothing back."""
        if not sys.platform.startswith("linux"):
            return None
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        return None if trim is None else cls(_resident_bytes, partial(trim, 0))

    def look(self, *, is_resting: bool, now_s: float) -> None:
        """Note whether the process rests, and trim once it has for 2 s."""
        if not is_resting:
            self._rests_since_s = None
        elif self._rests_since_s is None:
            self._rests_since_s = now_s
        elif now_s - self._rests_since_s >= REST_S:
            self._give_back()

    def _give_back(self) -> None:
        """Give memory that was freed back to the system, where the process has grown."""
        if self._resident_bytes() >= self.kept_bytes + GROWTH_BYTES_MIN:
            self._trim()
            self.kept_bytes = self._resident_bytes()


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text("ascii").split()[_RESIDENT]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
