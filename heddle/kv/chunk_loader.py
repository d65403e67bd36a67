"""Loads on a few threads: bounded, throttled where asked for, and timed so they can be foretold."""

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from heddle.core.ports import Clock
from heddle.kv.load_times import LoadTimes

JobT = TypeVar("JobT", bound=Hashable)
ResultT = TypeVar("ResultT")

log = logging.getLogger(__name__)


class ChunkLoader(Generic[JobT, ResultT]):
    """Runs reads off the caller's thread and learns how long they take. Thread-safe.

    Args:
        read: does a job on a thread of the pool; None, or an error (which is logged): it failed.
            A job is under way once at a time.
        done: called on the same thread with the job, its bytes, the result and the seconds that
            the read took; it must not raise.
        threads: reads at once.
        bytes_per_s: hold all reads together to this rate, to measure with a slow disk; None =
            as fast as it goes.
    """

    def __init__(
        self,
        read: Callable[[JobT], ResultT | None],
        done: Callable[[JobT, int, ResultT | None, float], None],
        clock: Clock,
        threads: int,
        bytes_per_s: float | None = None,
    ) -> None:
        self._read = read
        self._done = done
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="heddle-kv-load")
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._free_at_s = clock.now_s()  # when the throttled disk has done what was asked of it
        self._reads_waiting = 0
        self._bytes_waiting = 0
        self._ends_s: dict[JobT, float] = {}  # predicted, of the reads under way
        self._times = LoadTimes(threads, bytes_per_s, self._free_at_s)

    @property
    def is_in_the_dark(self) -> bool:
        """Whether the disk's speed estimate is stale and no read is under way to refresh it.

        Callers that know of a slow disk request no reads from it, so an estimate made in a slow
        moment would stay for ever: have the disk read something all the same.
        """
        with self._lock:
            return not self._reads_waiting and self._times.is_stale(self._clock.now_s())

    @property
    def has_spare_thread(self) -> bool:
        """Whether a read without a prompt that waits leaves a thread to those that come meanwhile.

        With a single thread, such reads begin only while there is no other.
        """
        with self._lock:
            return self._reads_waiting < max(1, self._threads - 1)

    def read_s(self, nbytes: int) -> float:
        """Return how long one read of this size takes with no other beside it [s]."""
        with self._lock:
            return self._times.predict_s(1, nbytes)

    def rehearse(self, sizes: Mapping[JobT, int]) -> None:
        """Read jobs of these sizes [bytes] at once, wait, learn from the times, drop results."""
        wait([self._pool.submit(self._timed_read, job, nbytes) for job, nbytes in sizes.items()])

    def start(self, job: JobT, nbytes: int) -> None:
        """Queue a read of `nbytes` bytes; the caller bounds how many reads are queued."""
        with self._lock:
            [left_s] = self._predicted_s((nbytes,))
            self._ends_s[job] = self._clock.now_s() + left_s
            self._reads_waiting += 1
            self._bytes_waiting += nbytes
        self._pool.submit(self._run, job, nbytes)

    def predicted_s(self, sizes: Iterable[int]) -> list[float]:
        """Return when reads of these sizes, queued now in this order, would be done [s].

        Counted from now, behind the reads under way; ascending.
        """
        with self._lock:
            return self._predicted_s(sizes)

    def left_s(self, job: JobT) -> float:
        """Return how long a read that was asked for should still take [s], never negative."""
        with self._lock:
            return max(0.0, self._ends_s.get(job, 0.0) - self._clock.now_s())

    def close(self) -> None:
        """Give up reads that have not begun, wait for those that have."""
        self._closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: JobT, nbytes: int) -> None:
        result, seconds = self._timed_read(job, nbytes)
        with self._lock:
            del self._ends_s[job]
            self._reads_waiting -= 1
            self._bytes_waiting -= nbytes
        self._done(job, nbytes, result, seconds)

    def _timed_read(self, job: JobT, nbytes: int) -> tuple[ResultT | None, float]:
        """Read, learn from it, and return the result with the seconds that it took."""
        with self._lock:
            started_s = self._clock.now_s()  # under the lock, so that the times never run back
            delivered_s = self._delivered_s(nbytes, started_s)
            self._times.begin(started_s)
        try:
            result = self._read(job)
        except Exception:
            log.exception("an entry of the chunk KV could not be loaded")
            result = None
        self._closing.wait(max(0.0, delivered_s - self._clock.now_s()))
        with self._lock:
            ended_s = self._clock.now_s()
            self._times.end(nbytes, ended_s, is_read=result is not None)
        return result, ended_s - started_s

    def _predicted_s(self, sizes: Iterable[int]) -> list[float]:
        reads, nbytes = self._reads_waiting, self._bytes_waiting
        ends_s: list[float] = []
        for size in sizes:
            reads, nbytes = reads + 1, nbytes + size
            ends_s.append(self._times.predict_s(reads, nbytes))
        return ends_s

    def _delivered_s(self, nbytes: int, now_s: float) -> float:
        """Return when a disk of the declared rate would have delivered these bytes."""
        if self._bytes_per_s is None:
            return now_s
        self._free_at_s = max(self._free_at_s, now_s) + nbytes / self._bytes_per_s
        return self._free_at_s
