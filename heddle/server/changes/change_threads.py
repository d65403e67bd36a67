"""The threads that change the corpus: a change waits there for its vectors and for the disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial
from typing import Any, Final, ParamSpec, Self, TypeVar

THREADS_MAX: Final = 16
CLOSING_S: Final = 300.0  # as asyncio waits for its own threads
P = ParamSpec("P")
T = TypeVar("T")


class ChangeThreads:
    """Runs changes off the event loop, on threads of their own. Use it as a context manager.

    `asyncio.to_thread` has one set of threads for all work, and on small machines only five. There,
    a few changes that wait for vectors would hold up every question.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS_MAX, "heddle-change")
        self._under_way: set[Future[Any]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Drop the changes that have not begun, and wait for the others, up to `CLOSING_S`."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(self._under_way, CLOSING_S)

    async def run(self, change: Callable[P, T], *args: P.args, **how: P.kwargs) -> T:
        """Run a change in the context of its request, and return its result."""
        call = partial(copy_context().run, partial(change, *args, **how))
        begun = self._pool.submit(call)
        self._under_way.add(begun)
        begun.add_done_callback(self._under_way.discard)
        return await asyncio.wrap_future(begun)
