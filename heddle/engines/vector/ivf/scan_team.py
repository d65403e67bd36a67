"""One scan of inverted lists by several threads, with the hits of one."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from heddle.kernels.borrowed_cores import BORROWED_CORES, BorrowedCores

BLOCK_BYTES = 8 << 20  # about 0.4 ms of one core: after it borrowed cores are given back

Scan = Callable[[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]], None]
"""Brings the vectors of lists [n, w] into heaps [n, k]: distances and labels."""

Heaps = tuple[NDArray[np.float32], NDArray[np.int64]]


class ScanTeam:
    """The caller's thread, those of the lane's other cores, and those of cores that are lent.

    Each takes the next lists and has heaps of its own. The hits are those of one thread, as of
    equally far vectors the lower id is nearer.

    Args:
        own: threads of the lane itself, the caller's among them.
        borrowed: another lane's cores.
    """

    def __init__(self, own: int = 1, borrowed: BorrowedCores = BORROWED_CORES) -> None:
        self._own, self._borrowed = own, borrowed
        self._helpers: ThreadPoolExecutor | None = None
        self._guests: ThreadPoolExecutor | None = None

    @property
    def has_help(self) -> bool:
        """Whether there are other threads now."""
        return self._own > 1 or self._borrowed.are_lent()

    def scan(
        self,
        scan: Scan,
        weights: NDArray[np.int64],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> None:
        """Scan all lists; together, where they are enough for several.

        Args:
            scan: does it, without holding the interpreter's lock.
            weights: how many bytes each column of lists is as long as, [w].
            lists: what each query scans, [n, w], -1 = nothing.
            distances: of the heaps, the farthest first, [n, k].
            labels: theirs, [n, k].
        Mutates: distances and labels.
        """
        blocks = _blocks(weights)
        if len(blocks) < 2:
            scan(lists, distances, labels)
            return
        todo = iter(blocks)

        def work(heaps: Heaps, may_go_on: Callable[[], bool]) -> Heaps:
            while may_go_on() and (block := next(todo, None)) is not None:
                scan(np.ascontiguousarray(lists[:, block]), *heaps)
            return heaps

        others = list(self._begun(work, (distances, labels), len(blocks) - 1))
        work((distances, labels), _always)
        found = [other.result() for other in others if not other.cancel()]
        _merge(distances, labels, found)

    def _begun(
        self, work: Callable[[Heaps, Callable[[], bool]], Heaps], heaps: Heaps, most: int
    ) -> Iterator[Future[Heaps]]:
        """Have others work, `most` at most; each has heaps that take what is nearer than these."""
        own = min(self._own - 1, most)
        if own and self._helpers is None:
            self._helpers = ThreadPoolExecutor(self._own - 1, "scan")
        for _ in range(own):
            assert self._helpers is not None, "made above"
            yield self._helpers.submit(work, _as_far(*heaps), _always)
        if not self._borrowed.are_lent():
            return
        cpus = self._borrowed.cpus
        if self._guests is None:
            self._guests = ThreadPoolExecutor(len(cpus), "guest", _stay_on, (cpus,))
        for _ in range(min(len(cpus), most - own)):
            yield self._guests.submit(work, _as_far(*heaps), self._borrowed.are_lent)


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


def _stay_on(cpus: tuple[int, ...]) -> None:
    """Keep this thread on these cores."""
    os.sched_setaffinity(0, cpus)


def _always() -> bool:
    return True
