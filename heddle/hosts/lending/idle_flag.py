"""A byte that processes of one machine share: whether a lane has nothing to do."""

import mmap
import os
import weakref
from typing import Self

_BUSY, _IDLE = 0, 1


class IdleFlag:
    """Says whether a lane is idle; it is busy until it has said otherwise.

    Args:
        path: where other processes of this user open it, as long as its maker lives.
        fd: its memory, which this object closes.
    """

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._byte = mmap.mmap(fd, 1)
        weakref.finalize(self, os.close, fd)

    @classmethod
    def make(cls, name: str) -> Self:
        """Make one. `name` is for people who look at the process's open files.

        Raises: OSError: the system refuses.
        """
        fd = os.memfd_create(f"heddle-{name}", os.MFD_CLOEXEC)
        os.truncate(fd, 1)
        return cls(f"/proc/{os.getpid()}/fd/{fd}", fd)

    @classmethod
    def open(cls, path: str) -> Self:
        """Open another process's.

        Raises: OSError: it isn't there, or the process has another user.
        """
        return cls(path, os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def set(self, *, is_idle: bool) -> None:
        """Say what the lane is."""
        self._byte[0] = _IDLE if is_idle else _BUSY

    def is_idle(self) -> bool:
        """Whether the lane has nothing to do."""
        return self._byte[0] == _IDLE
