"""Loads on a few threads: bounded, throttled where asked for, and timed so they can be foretold."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from heddle.core.ports import Clock
from heddle.costs.linear_fit import LinearFit

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
CALL_PRIOR_S = 1e-3
BYTES_PER_S_PRIOR = 500e6

log = logging.getLogger(__name__)


class ChunkLoader(Generic[JobT, ResultT]):
    """Runs reads off the caller's thread and learns how long they take. Thread-safe.

    Args:
        read: does a job on a thread of the pool; None, or an error (which is logged): it failed.
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
        prior_s = {"call": CALL_PRIOR_S, "bytes": 1 / (bytes_per_s or BYTES_PER_S_PRIOR)}
        self._fit = LinearFit("chunk loads", prior_s)

    def start(self, job: JobT, nbytes: int) -> None:
        """Queue a read of so many bytes; the caller bounds how many there are."""
        with self._lock:
            self._calls_waiting += 1
            self._bytes_waiting += nbytes
        self._pool.submit(self._run, job, nbytes)

    def predicted_s(self, nbytes: int) -> float:
        """Return when a read of so many bytes, asked for now, would be done [s from now]."""
        with self._lock:
            waiting = {"call": float(self._calls_waiting), "bytes": float(self._bytes_waiting)}
            own = {"call": 1.0, "bytes": float(nbytes)}
            return self._fit.predict_s(waiting) / self._threads + self._fit.predict_s(own)

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
            self._calls_waiting -= 1
            self._bytes_waiting -= nbytes
            if result is not None:
                self._fit.observe({"call": 1.0, "bytes": float(nbytes)}, seconds)
        self._done(job, nbytes, result, seconds)

    def _delivered_s(self, nbytes: int, now_s: float) -> float:
        """Return when a disk of the declared rate would have delivered these bytes."""
        if self._bytes_per_s is None:
            return now_s
        with self._lock:
            self._free_at_s = max(self._free_at_s, now_s) + nbytes / self._bytes_per_s
            return self._free_at_s
