"""Searches that something outside the lane carries out, in threads beside its steps."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from heddle.core.payloads import SearchPayload

R = TypeVar("R")
IsCancelled = Callable[[], bool]


class OutsideSearch:
    """A search under way; `is_cancelled` is set when its result is no longer wanted."""

    def __init__(self, task_id: int, payload: SearchPayload) -> None:
        self.task_id, self.payload = task_id, payload
        self.is_cancelled = threading.Event()


class OutsideSearches(Generic[R]):
    """Carries searches out in threads of its own, the first come first.

    The database lets go of the interpreter's lock while it looks, so steps go on meanwhile. The
    lane's searches bound how many wait. Threads begin with the first, and `close` joins them.

    Args:
        find: carries one out; called in a thread, each of which has a connection of its own.
        threads: searches at once.
        name: of the threads.
    """

    def __init__(
        self, find: Callable[[SearchPayload, IsCancelled], R], threads: int, name: str
    ) -> None:
        self._carry_out = find
        self._threads = ThreadPoolExecutor(threads, name)
        self._searches: dict[int, OutsideSearch] = {}
        self._ended: deque[tuple[OutsideSearch, Future[R]]] = deque()  # by the threads
        self._wake: Callable[[], None] = _nobody

    @property
    def has_results(self) -> bool:
        """Whether `take` has something to give."""
        return bool(self._ended)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from a thread, whenever a search has ended."""
        self._wake = wake

    def start(self, task_id: int, payload: SearchPayload) -> None:
        """Look for what a payload asks for, when those before are under way or over."""
        search = self._searches[task_id] = OutsideSearch(task_id, payload)
        future = self._threads.submit(self._find, search)
        future.add_done_callback(lambda ended: self._end(search, ended))

    def take(self) -> list[tuple[int, R | Exception]]:
        """Give away what searches have found, or why they failed, by task."""
        taken: list[tuple[int, R | Exception]] = []
        while self._ended:
            search, ended = self._ended.popleft()
            if search.is_cancelled.is_set():
                continue
            del self._searches[search.task_id]
            error = ended.exception()
            result = error if isinstance(error, Exception) else ended.result()
            taken.append((search.task_id, result))
        return taken

    def cancel(self, task_id: int) -> None:
        """Forget a search, if there is one, and stop it where it is."""
        if task_id in self._searches:
            self._searches.pop(task_id).is_cancelled.set()

    def close(self) -> None:
        """Stop all that goes on and join the threads."""
        for task_id in list(self._searches):
            self.cancel(task_id)
        self._threads.shutdown()

    def _end(self, search: OutsideSearch, ended: "Future[R]") -> None:
        if not search.is_cancelled.is_set():
            self._ended.append((search, ended))
            self._wake()

    def _find(self, search: OutsideSearch) -> R:
        return self._carry_out(search.payload, search.is_cancelled.is_set)


def _nobody() -> None:
    """Stand in for a subscriber until there is one."""
