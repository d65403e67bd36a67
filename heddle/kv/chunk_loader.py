"""Loads on a few threads: bounded, throttled where asked for, and timed so they can be foretold."""

import logging
import threading
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from heddle.core.ports import Clock
from heddle.costs.linear_fit import LinearFit

JobT = TypeVar("JobT", bound=Hashable)
ResultT = TypeVar("ResultT")
CALL_PRIOR_S: Final = 1e-3
BYTES_PER_S_PRIOR: Final = 500e6
REMEMBERED_S: Final = 60.0

log = logging.getLogger(__name__)


class ChunkLoader(Generic[JobT, ResultT]):
    """Runs reads off the caller's thread and learns how long they take. Thread-safe.

    What it has learnt it forgets after `REMEMBERED_S` without a read: callers that were told of
    a slow disk ask it nothing more, and one slow moment would be believed for ever.

    Args:
        read: does a job on a thread of the pool; None, or an error (which is logged): it failed.
            A job is under way once at a time.
        done: is told job, bytes, result and the seconds it took, on the same thread; it must not
            raise.
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
        self._threads = threads
        self._bytes_per_s = bytes_per_s
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="heddle-kv-load")
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._free_at_s = clock.now_s()  # when the throttled disk has done what was asked of it
        self._calls_waiting = 0
        self._bytes_waiting = 0
        self._ends_s: dict[JobT, float] = {}  # predicted, of the reads under way
        self._prior_s = {"call": CALL_PRIOR_S, "bytes": 1 / (bytes_per_s or BYTES_PER_S_PRIOR)}
        self._fit = LinearFit("chunk loads", self._prior_s)
        self._learnt_s = clock.now_s()

    def start(self, job: JobT, nbytes: int) -> None:
        """Queue a read of so many bytes; the caller bounds how many there are."""
        with self._lock:
            [left_s] = self._predicted_s((nbytes,))
            self._ends_s[job] = self._clock.now_s() + left_s
            self._calls_waiting += 1
            self._bytes_waiting += nbytes
        self._pool.submit(self._run, job, nbytes)

    def predicted_s(self, sizes: Iterable[int]) -> list[float]:
        """Return when reads of so many bytes, asked for now in this order, would be done [s].

        From now, behind what is under way; ascending.
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
        started_s = self._clock.now_s()
        delivered_s = self._delivered_s(nbytes, started_s)
        try:
            result = self._read(job)
        except Exception:
            log.exception("an entry of the chunk KV could not be loaded")
            result = None
        self._closing.wait(max(0.0, delivered_s - self._clock.now_s()))
        seconds = self._clock.now_s() - started_s
        with self._lock:
            del self._ends_s[job]
            self._calls_waiting -= 1
            self._bytes_waiting -= nbytes
            if result is not None:
                self._fit.observe(_features(1, nbytes), seconds)
                self._learnt_s = self._clock.now_s()
        self._done(job, nbytes, result, seconds)

    def _predicted_s(self, sizes: Iterable[int]) -> list[float]:
        if self._clock.now_s() - self._learnt_s > REMEMBERED_S:
            self._fit = LinearFit(self._fit.lane, self._prior_s)
        calls, nbytes = self._calls_waiting, self._bytes_waiting
        ends_s: list[float] = []
        for size in sizes:
            waiting_s = self._fit.predict_s(_features(calls, nbytes)) / self._threads
            end_s = waiting_s + self._fit.predict_s(_features(1, size))
            ends_s.append(max([end_s, *ends_s[-1:]]))
            calls, nbytes = calls + 1, nbytes + size
        return ends_s

    def _delivered_s(self, nbytes: int, now_s: float) -> float:
        """Return when a disk of the declared rate would have delivered these bytes."""
        if self._bytes_per_s is None:
            return now_s
        with self._lock:
            self._free_at_s = max(self._free_at_s, now_s) + nbytes / self._bytes_per_s
            return self._free_at_s


def _features(calls: int, nbytes: int) -> dict[str, float]:
    return {"call": float(calls), "bytes": float(nbytes)}
