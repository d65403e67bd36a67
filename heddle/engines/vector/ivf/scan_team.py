"""One scan of inverted lists by several threads, with the hits of one."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.kernels.borrowed_cores import BORROWED_CORES, BorrowedCores

log = logging.getLogger(__name__)

BLOCK_BYTES = 8 << 20  # about 0.4 ms of one core: after it borrowed cores are given back

Scan = Callable[[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]], None]
"""Brings the vectors of lists [n, w] into heaps [n, k]: distances and labels."""

Heaps = tuple[NDArray[np.float32], NDArray[np.int64]]


class Crew(NamedTuple):
    """Threads that take part in a scan, as long as they may."""

    pool: ThreadPoolExecutor
    threads: int
    may_go_on: Callable[[], bool]


class ScanTeam:
    """The caller's thread, those of the lane's other cores, and those of cores that are lent.

    Each takes the next lists and has heaps of its own. The hits are those of one thread, as of
    equally far vectors the lower id is nearer. Threads that the system refuses are done without.

    Args:
        own: threads of the lane itself, the caller's among them.
        borrowed: another lane's cores.
    """

    def __init__(self, own: int = 1, borrowed: BorrowedCores = BORROWED_CORES) -> None:
        self._own, self._borrowed = own, borrowed

    def scan(
        self,
        scan: Scan,
        weigh: Callable[[NDArray[np.int64]], NDArray[np.int64]],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> None:
        """Scan all lists; together, where they are enough for several threads.

        No other thread scans any more when this returns or raises.

        Args:
            scan: does it, without holding the interpreter's lock.
            weigh: returns how many bytes each column of lists is as long as, [n, w] -> [w].
            lists: what each query scans, [n, w], -1 = nothing.
            distances: of the heaps, the farthest first, [n, k].
            labels: theirs, [n, k].
        Mutates: distances and labels.
        """
        crews = list(self._crews())
        blocks = _blocks(weigh(lists)) if crews else []
        if len(blocks) < 2:
            scan(lists, distances, labels)
            return
        todo, others = deque(blocks), list[Future[Heaps]]()

        def work(heaps: Heaps, may_go_on: Callable[[], bool]) -> Heaps:
            while may_go_on() and (block := _next(todo)) is not None:
                scan(np.ascontiguousarray(lists[:, block]), *heaps)
            return heaps

        try:
            for crew in crews:
                for _ in range(min(crew.threads, len(blocks) - 1 - len(others))):
                    heaps = _as_far(distances, labels)
                    others.append(crew.pool.submit(work, heaps, crew.may_go_on))
            work((distances, labels), _always)
        finally:
            todo.clear()  # only after a failure is anything left
            begun = [other for other in others if not other.cancel()]
            wait(begun)
        _merge(distances, labels, [other.result() for other in begun])

    def _crews(self) -> Iterator[Crew]:
        if self._own > 1 and self._helpers is not None:
            yield Crew(self._helpers, self._own - 1, _always)
        if self._borrowed.are_lent() and self._guests is not None:
            yield Crew(self._guests, len(self._borrowed.cpus), self._borrowed.are_lent)

    @cached_property
    def _helpers(self) -> ThreadPoolExecutor | None:
        return _started(self._own - 1, "scan")

    @cached_property
    def _guests(self) -> ThreadPoolExecutor | None:
        cpus = self._borrowed.cpus
        return _started(len(cpus), "guest", lambda: os.sched_setaffinity(0, cpus))


def _started(
    count: int, name: str, prepare: Callable[[], None] = lambda: None
) -> ThreadPoolExecutor | None:
    """Start threads, each of which prepares itself; None where the system refuses."""
    threads, all_there = ThreadPoolExecutor(count, name), threading.Barrier(count + 1)

    def begin() -> None:
        try:
            prepare()
        except OSError:
            all_there.abort()
            raise
        all_there.wait()

    begun: list[Future[None]] = []
    try:
        begun.extend(threads.submit(begin) for _ in range(count))
        all_there.wait()
    except RuntimeError as error:  # a broken barrier is one, and so is a thread that can't start
        all_there.abort()
        threads.shutdown(cancel_futures=True)
        failed = (future.exception() for future in begun if not future.cancelled())
        why = next((one for one in failed if isinstance(one, OSError)), error)
        log.warning("scans go on without threads called %r: %s", name, why)
        return None
    return threads


def _next(todo: deque[slice]) -> slice | None:
    try:
        return todo.popleft()
    except IndexError:
        return None


def _blocks(weights: NDArray[np.int64]) -> list[slice]:
    """Return columns that lie together, each block of about `BLOCK_BYTES`."""
    numbers = np.cumsum(weights) // BLOCK_BYTES
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()]
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], None], strict=True)]


def _as_far(distances: NDArray[np.float32], labels: NDArray[np.int64]) -> Heaps:
    """Return heaps full of the farthest entry of these, so that only nearer ones are kept."""
    shape = distances.shape
    farthest = distances[:, :1], labels[:, :1]
    return np.broadcast_to(farthest[0], shape).copy(), np.broadcast_to(farthest[1], shape).copy()


def _merge(distances: NDArray[np.float32], labels: NDArray[np.int64], others: list[Heaps]) -> None:
    """Keep the nearest of all heaps in the first, the lower ids of equally far ones. All [n, k]."""
    if not others:
        return
    all_distances = np.concatenate([distances, *(found[0] for found in others)], axis=1)
    all_labels = np.concatenate([labels, *(found[1] for found in others)], axis=1)
    kept = np.lexsort((all_labels, all_distances), axis=1)[:, : distances.shape[1]][:, ::-1]
    distances[:] = np.take_along_axis(all_distances, kept, axis=1)
    labels[:] = np.take_along_axis(all_labels, kept, axis=1)


def _always() -> bool:
    return True
