"""The thread that a server's runtime lives on, and how other threads reach it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from heddle.core.errors import HeddleError, WorkflowError

T = TypeVar("T")


class RuntimeThread:
    """An event loop on a thread of its own, to which other threads hand work.

    Work runs in the order in which it was handed over. The thread's life has four steps, in this
    order: `start`; `shut`, from which on no new work is taken; `stop`, which ends the thread; and
    `dispose`, which frees the event loop. Between `shut` and `stop` the owner closes what lives on
    the thread, with `call_last`.
    """

    def __init__(self, name: str = "heddle-runtime") -> None:
        self.event_loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.event_loop.run_forever, name=name, daemon=True)
        self._lock = threading.Lock()  # guards `_is_shut`: once it is set, no work is handed over
        self._is_shut = False

    def start(self) -> None:
        """Begin to run what is handed over."""
        self._thread.start()

    def call(self, work: Callable[[], T]) -> T:
        """Run work on the thread, wait for it, and return its result or raise its error.

        Raises:
            HeddleError: the thread is shut.
            WorkflowError: the caller runs on this thread itself, as a workflow function does.
        """
        if threading.current_thread() is self._thread:
            raise WorkflowError(
                "a call of the server in a workflow function, callable edge or pass would wait for "
                "itself: call it in a tool (rag.tool, add_tool)"
            )
        with self._lock:
            if self._is_shut:
                raise HeddleError("the server is closed")
            done = self._hand_over(work)
        return done.result()

    def post(self, work: Callable[[], object]) -> None:
        """Have work run on the thread, and return at once; does nothing where it is shut."""
        with self._lock:
            if not self._is_shut:
                self.event_loop.call_soon_threadsafe(work)

    def shut(self) -> bool:
        """Take no more work; return whether any was taken until now. Work under way goes on."""
        with self._lock:
            was_open, self._is_shut = not self._is_shut, True
        return was_open

    def call_last(self, close: Callable[[], None]) -> None:
        """Run what closes something on the thread, behind all work, though it is shut."""
        self._hand_over(close).result()

    def stop(self) -> None:
        """End the thread, behind all work, and wait until it has ended."""
        self.event_loop.call_soon_threadsafe(self.event_loop.stop)
        self._thread.join()

    def dispose(self) -> None:
        """Free the event loop. No thread may wake it any more."""
        self.event_loop.close()

    def _hand_over(self, work: Callable[[], T]) -> Future[T]:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        self.event_loop.call_soon_threadsafe(run)
        return done
