"""Wakes what waits on another thread's event loop: many waiters with one write to its pipe."""

import asyncio
from collections import deque
from weakref import WeakKeyDictionary


class LoopWaker:
    """Completes futures of one event loop, from any thread.

    Waking a loop writes to its pipe, which costs more than all else that an event costs. Futures
    that are completed before the loop has had its turn share that write: a step that gives each
    of 32 streams a token wakes their loop once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_due = False

    def wake(self, changed: "asyncio.Future[None]") -> None:
        """Complete a future of the loop: at once on its own thread, else soon.

        It does nothing where the loop is closed.
        """
        if _running_loop() is self._loop:
            _complete(changed)
            return
        self._waiting.append(changed)
        # Set after the future is in: the loop clears it before it looks for futures.
        if not self._is_due and not self._loop.is_closed():
            self._is_due = True
            self._loop.call_soon_threadsafe(self._complete_all)

    def _complete_all(self) -> None:
        self._is_due = False
        while self._waiting:
            _complete(self._waiting.popleft())


def _complete(changed: "asyncio.Future[None]") -> None:
    if not changed.done():
        changed.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_WAKERS: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWaker] = WeakKeyDictionary()


def waker_of(loop: asyncio.AbstractEventLoop) -> LoopWaker:
    """Return the one waker of the running loop; called on the loop's own thread."""
    found = _WAKERS.get(loop)
    if found is None:
        found = _WAKERS[loop] = LoopWaker(loop)
    return found
