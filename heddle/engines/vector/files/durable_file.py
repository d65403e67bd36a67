"""Files that are replaced atomically and survive a power cut, and what their dead writers left."""

import os
from collections.abc import Callable
from pathlib import Path

import psutil


def write_durably(target: Path, write: Callable[[Path], object]) -> None:
    """Have a file written beside its target, then put it in its place.

    Raises:
        OSError: the disk refused; what stood there is as it was. So it is after any other error.
    """
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        sync(temporary)
        os.replace(temporary, target)
        sync(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_abandoned(folder: Path) -> None:
    """Remove what writers have left half-written that are dead.

    The caller holds the folder's lock: no other part of this process writes there.
    """
    for path in folder.glob("*.tmp"):
        writer = path.name.split(".")[-2]
        if not writer.isdecimal() or _is_mine_or_dead(int(writer)):
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_mine_or_dead(pid: int) -> bool:
    return pid == os.getpid() or not psutil.pid_exists(pid)
