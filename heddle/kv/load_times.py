"""How long chunk loads take, learnt from those that share a disk. Pure decisions."""

import math
from collections import deque
from typing import Final

CALL_GUESS_S: Final = 1e-3
BYTES_PER_S_GUESS: Final = 500e6
REMEMBERED: Final = 8
REMEMBERED_S: Final = 60.0


class LoadTimes:
    """Times reads and foretells when a queue of them ends. Not thread-safe; times are passed in.

    Reads at once share a disk, so they are timed together, as many as are done at once: each by
    itself would look as slow as all of them. One alone may take longer than foretold, on a disk
    that is faster with several.

    What is learnt is how many times longer than a first guess the last `REMEMBERED` took. After
    `REMEMBERED_S` without any, one measurement replaces them all: a disk may have changed since.

    Args:
        threads: reads at once.
        bytes_per_s: what the disk is known to deliver; None = that is to be found out.
    """

    def __init__(self, threads: int, bytes_per_s: float | None, now_s: float) -> None:
        self._threads = threads
        self._bytes_per_s = bytes_per_s or BYTES_PER_S_GUESS
        self._measured: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)  # seconds and guess
        self._measured_s = -math.inf if bytes_per_s is None else now_s
        self._reading = 0
        self._from_s = now_s
        self._from_idle = True  # whether nothing was being read then
        self._sizes: list[int] = []  # bytes of the reads that have ended since then

    def is_stale(self, now_s: float) -> bool:
        """Whether no read was timed for `REMEMBERED_S`."""
        return now_s - self._measured_s > REMEMBERED_S

    def predict_s(self, reads: int, nbytes: int) -> float:
        """Return how long `reads` reads of `nbytes` bytes in all take [s]."""
        guess_s = self._guess_s(reads, nbytes)
        if not self._measured:
            return guess_s
        seconds, guesses_s = map(sum, zip(*self._measured, strict=True))
        return guess_s * seconds / guesses_s

    def begin(self, now_s: float) -> None:
        """Note that a read begins."""
        if not self._reading:
            self._from_s, self._from_idle, self._sizes = now_s, True, []
        self._reading += 1

    def end(self, nbytes: int, now_s: float, *, is_read: bool) -> None:
        """Note that a read has ended; a failed one's time and those beside it are not learnt."""
        self._reading -= 1
        if is_read:
            self._sizes.append(nbytes)
            is_full = len(self._sizes) >= self._threads
            if self._reading and not is_full:
                return
            # The rest of a queue took most of its time before those ahead of it were timed.
            if is_full or self._from_idle:
                self._learn(len(self._sizes), sum(self._sizes), now_s)
        self._from_s, self._from_idle, self._sizes = now_s, False, []

    def _learn(self, reads: int, nbytes: int, now_s: float) -> None:
        if self.is_stale(now_s):
            self._measured.clear()
        self._measured.append((now_s - self._from_s, self._guess_s(reads, nbytes)))
        self._measured_s = now_s

    def _guess_s(self, reads: int, nbytes: int) -> float:
        return reads * CALL_GUESS_S + nbytes / self._bytes_per_s
