"""Wakes what waits on another thread's event loop: many waiters with one write to its pipe."""

import asyncio
import threading
from collections import deque
from weakref import WeakKeyDictionary, ref

from heddle.runtime.turn_end import at_turn_end


class LoopWaker:
    """Completes futures of one event loop, from any thread.

    Waking a loop writes to its pipe, and then two threads want Python's lock: both cost more than
    all else that an event costs. So futures that are completed before the loop has run again
    share a wake, and in a `turn` the loop is woken once all of them are completed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # a strong one would keep the key of `_WAKERS`
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_due = False

    def wake(self, changed: "asyncio.Future[None]") -> None:
        """Complete a future of the loop: at once on its own thread, else soon.

        It does nothing where the loop is closed.
        """
        if _running_loop() is self._loop():
            _complete(changed)
            return
        self._waiting.append(changed)
        # Set after the future is in: the loop clears it before it looks for futures.
        if self._is_due:
            return
        self._is_due = True
        if not at_turn_end(self.rouse):
            self.rouse()

    def rouse(self) -> None:
        """Have the loop complete what waits; it does nothing where the loop is closed."""
        loop = self._loop()
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._complete_all)
                return
            except RuntimeError:
                # Asked only now: its own thread may close it at any moment.
                if not loop.is_closed():
                    raise
        self._is_due = False
        self._waiting.clear()  # each future holds the loop

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
_lock = threading.Lock()  # over changes of `_WAKERS`


def waker_of(loop: asyncio.AbstractEventLoop) -> LoopWaker:
    """Return the one waker of the running loop; called on the loop's own thread."""
    found = _WAKERS.get(loop)
    if found is None:
        with _lock:
            _drop_closed_loops()
            found = _WAKERS[loop] = LoopWaker(loop)
    return found


def _drop_closed_loops() -> None:
    """Forget loops that were closed before their turn: the futures left waiting hold them."""
    for loop in [one for one in _WAKERS if one.is_closed()]:
        del _WAKERS[loop]
