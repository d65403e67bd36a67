"""The share of the CPU's time that some processes use while something runs."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_used(pids: Sequence[int], cores: int, work: Callable[[], object]) -> float:
    """Return the CPU time of processes while `work` runs, as a share of all cores' time.

    Args:
        pids: the processes; this one counts where it is named.
        cores: how many there are.
        work: what runs meanwhile.

    Deviates: WindVE doesn't say how it measures. Neighbours on the machine don't count here.
    """
    began_s, used_s = time.perf_counter(), _cpu_s(pids)
    work()
    return (_cpu_s(pids) - used_s) / (cores * (time.perf_counter() - began_s))


def _cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time of processes so far, in the system and outside [s]."""
    ticks = 0
    for pid in pids:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()  # the name before may hold blanks
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_S
