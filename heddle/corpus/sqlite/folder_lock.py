"""Locks on a folder and on tasks in it, over all threads and processes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path


@contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Keep others who call this from what is done inside; the lock ends with its holder.

    `shared`: others may be inside as well who say so, too, as those who only read. Where the file
    system has no locks they go on without: who writes needs one.

    Raises: OSError: there is no such folder, or its file system has no locks.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError) if shared else nullcontext():
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class FileClaim:
    """The sole right to a task, by a lock on a file; it ends with this process as well."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def taken(cls, file: Path) -> "FileClaim | None":
        """Lock a file, which is made where it is missing; None = another process has it.

        Raises: OSError: it can't be made, or this file system has no locks.
        """
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    @property
    def is_held(self) -> bool:
        """True: the lock lasts until `release`."""
        return True

    def release(self) -> None:
        """Let others have it. Called once."""
        os.close(self._descriptor)
