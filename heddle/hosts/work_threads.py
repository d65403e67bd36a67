"""A few threads for work that would hold up the runtime's own."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class WorkThreads:
    """Satisfies heddle.core.ports.WorkPool.

    Args:
        name: of the threads, for debuggers.
        threads: how much runs at a time; more work waits, the oldest first.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"heddle-{name}")
        self._wake: Callable[[], None] = _no_one

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run work on one of the threads; a future that is cancelled before never runs."""
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: self._wake())
        return future

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever work has ended."""
        self._wake = wake

    def close(self) -> None:
        """Drop the work that waits, and wait for what is under way."""
        self._pool.shutdown(cancel_futures=True)


def _no_one() -> None:
    """Do nothing: the runtime has not subscribed yet."""
