"""What a process has done since one looked last: computed, or waited for a core. (ADR 5)"""

import os
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the command's name, which may hold spaces. (proc(5))
_STATE, _USER_TICKS, _SYSTEM_TICKS = 0, 11, 12
_STOPPED: Final = ("T", "t")


class ProcessProgress:
    """Says how long a process has computed or waited for a core since `mark` [s].

    A process that is stopped, sleeps or waits for a lock makes no progress. One on a crowded
    machine does: it has its share of the cores, or stands in their queue.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._marked_s = progress_s(pid)

    def mark(self) -> None:
        """Count from now."""
        self._marked_s = progress_s(self._pid)

    def seconds(self) -> float:
        """Return how much there was [s]: over all threads; 0 where the system doesn't tell."""
        return max(0.0, progress_s(self._pid) - self._marked_s)


def progress_s(pid: int) -> float:
    """Return how long a process has computed or waited for a core since it began [s]."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        if fields[_STATE] in _STOPPED:
            return 0.0
        computed_s = (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_PER_S
        return computed_s + sum(map(_waited_s, Path(f"/proc/{pid}/task").iterdir()))
    except (OSError, IndexError, ValueError):
        return 0.0  # it is gone, or this is not Linux: silence is all there is to go by


def _waited_s(thread: Path) -> float:
    """Return how long a thread has been ready to run without a core [s]."""
    try:
        return int((thread / "schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0  # the thread has ended meanwhile, or the kernel doesn't count
