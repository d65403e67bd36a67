"""How long an index is searched as it is while its corpus can't be reached."""

from heddle.core.errors import Unreachable
from heddle.core.ports import Clock
from heddle.engines.vector.perf_clock import PerfClock

RETRY_S = 1.0  # between two looks at a database that is away: each may wait for the network


class Staleness:
    """Judges whether searches go on without the corpus, and notes that they do.

    Args:
        stale_max_s: how long they may, counted from the last look that succeeded [s]; 0 = never.
        clock: the time.
    """

    def __init__(self, stale_max_s: float = 0.0, clock: Clock | None = None) -> None:
        self._stale_max_s = stale_max_s
        self._clock = PerfClock() if clock is None else clock
        self._seen_s = self._clock.now_s()  # the index was just opened
        self._failed_s: float | None = None
        self._error: Unreachable | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the corpus was away a moment ago and is not asked again yet."""
        return self._failed_s is not None and self._clock.now_s() < self._failed_s + RETRY_S

    @property
    def note(self) -> str:
        """What searches report; "" = they see the corpus."""
        if self._error is None:
            return ""
        since = self._clock.now_s() - self._seen_s
        return f"searched as the corpus was {since:.0f} s ago: {self._error}"

    def seen(self) -> None:
        """Say that the corpus answered."""
        self._seen_s = self._clock.now_s()
        self._failed_s = self._error = None

    def check(self, error: Unreachable | None = None) -> None:
        """Say that the corpus is away; return if searches may go on all the same.

        Args:
            error: why; None = as the last time.

        Raises: Unreachable: it has been away for too long.
        """
        now_s = self._clock.now_s()
        if error is not None:
            self._failed_s, self._error = now_s, error
        assert self._error is not None, "a reason was given the first time"
        if now_s - self._seen_s > self._stale_max_s:
            raise self._error
