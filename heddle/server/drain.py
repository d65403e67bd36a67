"""The end of a server: requests under way may end, no new one begins, the rest is cut."""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)
CLOSING_S: Final = 2  # for the last words to requests that are cut


class Drain:
    """The requests under way, and how a server that stops waits for them.

    Its methods are called on the server's event loop; `begin` may be called by a signal's handler.

    Args:
        grace_s: what requests under way get to end.
    """

    def __init__(self, grace_s: float = math.inf) -> None:
        self._grace_s = grace_s
        self._under_way: dict[asyncio.Task[None], Callable[[], None]] = {}
        self._is_hurried = False
        self._wanted = False
        self._ends_s: float | None = None
        self.cut = 0

    @property
    def has_begun(self) -> bool:
        """Whether the server takes no more requests."""
        return self._wanted

    @property
    def under_way(self) -> int:
        """How many requests have no answer yet."""
        return len(self._under_way)

    def add(self, task: asyncio.Task[None], on_cut: Callable[[], None]) -> None:
        """Count a request until its task ends; `on_cut` is called before the task is cancelled."""
        self._under_way[task] = on_cut
        task.add_done_callback(lambda ended: self._under_way.pop(ended, None))

    def begin(self) -> None:
        """Take no more requests; called again, it ends the wait for those under way."""
        self._is_hurried = self._wanted
        self._wanted = True

    def is_over(self, now_s: float) -> bool:
        """Whether the server may close. Once the time is over, cuts what is under way.

        Mutates: the first call starts the time.
        """
        if not self._wanted:
            return False
        if self._ends_s is None:
            self._ends_s = now_s + self._grace_s
            if self._under_way:
                log.warning(
                    "stopping: %d under way, with %g s to end; a second signal ends them at once",
                    self.under_way,
                    self._grace_s,
                )
        if not self._under_way:
            return True
        if self.cut:
            return now_s >= self._ends_s
        if self._is_hurried or now_s >= self._ends_s:
            self._cut()
            self._ends_s = now_s + CLOSING_S
        return False

    def _cut(self) -> None:
        self.cut = self.under_way
        log.warning("stopping: %d cut", self.cut)
        for task, on_cut in list(self._under_way.items()):
            on_cut()
            task.cancel()
