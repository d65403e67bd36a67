"""Threads on another lane's cores, while that lane has nothing to do.

A process computes with torch's threads, whose number is the process's. So there is one
`BORROWED`, which each layer asks before it computes: a lane that gets work has its cores back after
at most a layer.
"""

from collections.abc import Callable
from typing import Final

import torch


class BorrowedThreads:
    """Torch's number of threads, larger while others lend their cores. Borrows none until begun."""

    def __init__(self) -> None:
        self._is_lent: Callable[[], bool] | None = None
        self._own = self._all = self._threads = 0

    def begin(self, is_lent: Callable[[], bool], own: int, borrowed: int) -> None:
        """Borrow from now on.

        Args:
            is_lent: whether the cores may be used now; asked often, so it should take no time.
            own: threads of the process itself.
            borrowed: threads beside them while cores are lent.
        """
        self._is_lent, self._own, self._all = is_lent, own, own + borrowed
        self._threads = own

    def look(self) -> None:
        """Take as many threads as there are cores now."""
        if self._is_lent is None:
            return
        wanted = self._all if self._is_lent() else self._own
        if wanted != self._threads:
            torch.set_num_threads(wanted)
            self._threads = wanted


BORROWED: Final = BorrowedThreads()
