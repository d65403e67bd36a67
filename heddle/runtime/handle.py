"""A caller's end of a request: awaitable, iterable, cancellable, from any thread or loop."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import partial

from heddle.core.errors import HeddleError
from heddle.runtime.clock import SystemClock
from heddle.runtime.events import Answer, RequestEvent, RequestFailed, TokenDelta
from heddle.runtime.loop_waker import waker_of

Waker = Callable[[], None]
ENDS = (Answer, RequestFailed)


class Handle:
    """What `submit` returns.

    `await handle` gives the Answer or raises; `async for event in handle` (or a plain `for`)
    gives the events; `await handle.cancel()` ends the request, and cancelling a task that
    awaits the handle does the same. Token deltas that the caller has not taken yet are merged: a
    slow reader costs one pending delta for each turn or round of a node and never stops a step.

    Args:
        cancel: ends the request.
        request_id: its number in the runtime, by which the log names it.

    Example:
        import asyncio
        from heddle import Retrieved

        async def follow():
            handle = server.submit("oneshot", "Who founded Oak Mill?", topk=1)
            async for event in handle:
                if isinstance(event, Retrieved):
                    print("reading", event.passages[0].title)  # reading mill
            return await handle

        print(asyncio.run(follow()).text)  # Ann Reed
    """

    def __init__(self, cancel: Callable[[], None], request_id: int = 0) -> None:
        self._cancel = cancel
        self.request_id = request_id
        self._lock = threading.Lock()
        self._events: deque[RequestEvent] = deque()
        self._end: Answer | RequestFailed | None = None
        # Who waits for the answer alone isn't woken by every event before it.
        self._event_wakers: list[Waker] = []
        self._end_wakers: list[Waker] = []
        self._is_read = False  # event by event

    # -- the runtime's side -------------------------------------------------------------------

    def push(self, event: RequestEvent) -> None:
        """Take an event in; called by the runtime's thread."""
        with self._lock:
            self._keep(event)
            wakers: list[Waker] = []
            if self._event_wakers:
                wakers += self._event_wakers
                self._event_wakers.clear()
            if isinstance(event, ENDS):
                assert self._end is None, "a request ended twice"
                self._end = event
                wakers += self._end_wakers
                self._end_wakers.clear()
        for wake in wakers:
            wake()

    def _keep(self, event: RequestEvent) -> None:
        if isinstance(event, TokenDelta) and self._events:
            last = self._events[-1]
            if isinstance(last, TokenDelta) and last.node == event.node:
                self._events[-1] = TokenDelta(event.node, last.text + event.text)
                return
        self._events.append(event)

    # -- the caller's side --------------------------------------------------------------------

    def awaits_end_alone(self) -> bool:
        """Whether the answer is waited for, and no reader of the events has begun."""
        return bool(self._end_wakers) and not self._is_read

    @property
    def is_done(self) -> bool:
        """Whether the request has ended."""
        return self._end is not None

    def result(self, timeout_s: float | None = None) -> Answer:
        """Block until the answer.

        Raises:
            TimeoutError: it took longer than `timeout_s`; the request goes on.
            HeddleError: the error that ended the request.
        """
        if not self.wait(timeout_s):
            raise TimeoutError(f"no answer within {timeout_s} s")
        return self._outcome()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the request has ended, at most `timeout_s`; return whether it has."""
        return self._block_until(self._has_ended, self._end_wakers, timeout_s)

    def cancel_soon(self) -> None:
        """Ask for cancellation and return at once."""
        self._cancel()

    async def cancel(self) -> None:
        """Cancel the request and wait until it has ended."""
        self._cancel()
        await self._wait_for(self._has_ended, self._end_wakers)

    def __await__(self) -> Generator[object, None, Answer]:
        return self._answer().__await__()

    async def _answer(self) -> Answer:
        try:
            await self._wait_for(self._has_ended, self._end_wakers)
        except asyncio.CancelledError:
            self._cancel()
            raise
        return self._outcome()

    async def __aiter__(self) -> AsyncIterator[RequestEvent]:
        self._is_read = True
        try:
            while True:
                await self._wait_for(self._has_news, self._event_wakers)
                event = self._take()
                if event is None:
                    return
                yield event
        except asyncio.CancelledError:
            self._cancel()
            raise

    def __iter__(self) -> Iterator[RequestEvent]:
        self._is_read = True
        while True:
            self._block_until(self._has_news, self._event_wakers)
            event = self._take()
            if event is None:
                return
            yield event

    def _take(self) -> RequestEvent | None:
        with self._lock:
            return self._events.popleft() if self._events else None

    def _outcome(self) -> Answer:
        if isinstance(self._end, Answer):
            return self._end
        assert self._end is not None, "the outcome is read before the end"
        raise _fresh(self._end.error)

    def _has_ended(self) -> bool:
        return self._end is not None

    def _has_news(self) -> bool:
        return bool(self._events) or self._end is not None

    def _block_until(
        self, is_true: Callable[[], bool], wakers: list[Waker], timeout_s: float | None = None
    ) -> bool:
        """Block this thread until a push makes it true; False when that took too long."""
        clock = SystemClock()
        end_s = None if timeout_s is None else clock.now_s() + timeout_s
        changed = threading.Event()
        wake = changed.set
        while True:
            with self._lock:
                if is_true():
                    return True
                changed.clear()
                wakers.append(wake)
            left_s = None if end_s is None else max(0.0, end_s - clock.now_s())
            if not changed.wait(left_s):
                with self._lock:
                    if wake in wakers:
                        wakers.remove(wake)
                    return is_true()

    async def _wait_for(self, is_true: Callable[[], bool], wakers: list[Waker]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with self._lock:
                if is_true():
                    return
                changed = loop.create_future()
                wakers.append(partial(waker_of(loop).wake, changed))
            await changed


def _fresh(error: HeddleError) -> HeddleError:
    """Return the error without the traceback that an earlier raise left on it."""
    return error.with_traceback(None)
