"""A share of a core for a process, by a CPU control group: a proxy for a smaller core."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError

# Short, so that a burst of some milliseconds gets its share, too, instead of the whole quota of a
# period at full speed; a quarter of it is still above the kernel's smallest quota of 1 ms.
PERIOD_US: Final = 5_000
CGROUPS: Final = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def cpu_quota(pid: int | None, share: float) -> Iterator[None]:
    """Put a process into a control group that may use a share of one core.

    Raises:
        InputError: control groups can't be written here.
    """
    is_v2 = (CGROUPS / "cgroup.controllers").exists()
    parent = CGROUPS if is_v2 else CGROUPS / "cpu"
    group = parent / f"heddle-bench-{pid}"
    quota_us = int(share * PERIOD_US)
    try:
        group.mkdir()
        if is_v2:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise InputError(f"control groups can't be written: {error}") from error
    try:
        yield
    finally:
        (parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()
