"""How long an index is searched as it is while its corpus can't be reached."""

import math

from heddle.core.errors import Unreachable
from heddle.core.ports import Clock
from heddle.engines.vector.perf_clock import PerfClock

RETRY_S = 1.0  # between two looks at a database that is away where each waits for the network
SLOW_S = 0.1  # a look that takes longer has waited for it


class Staleness:
    """Judges whether searches go on without the corpus, and notes that they do.

    Args:
        stale_max_s: how long they may, counted from the first look that failed [s]; 0 = never.
        clock: the time.
    """

    def __init__(self, stale_max_s: float = 0.0, clock: Clock | None = None) -> None:
        self._stale_max_s = stale_max_s
        self._clock = PerfClock() if clock is None else clock
        self._seen_s = self._clock.now_s()  # the index was just opened
        self._begun_s = self._seen_s
        self._again_s = -math.inf
        self._away_s = math.inf  # when the first look failed
        self._error: Unreachable | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether asking took long a moment ago, in vain, and is not tried again yet."""
        return self._clock.now_s() < self._again_s

    @property
    def note(self) -> str:
        """What searches report; "" = they see the corpus."""
        if self._error is None:
            return ""
        now_s = self._clock.now_s()
        seen = f"searched as the corpus was {now_s - self._seen_s:.0f} s ago"
        return f"{seen}, away for {now_s - self._away_s:.0f} s: {self._error}"

    def begin(self) -> None:
        """Say that the corpus is asked now."""
        self._begun_s = self._clock.now_s()

    def seen(self) -> None:
        """Say that the corpus answered."""
        self._seen_s = self._clock.now_s()
        self._away_s, self._again_s, self._error = math.inf, -math.inf, None

    def check(self, error: Unreachable | None = None) -> None:
        """Say that the corpus is away; return if searches may go on all the same.

        Args:
            error: why; None = as the last time.

        Raises: Unreachable: it has been away for too long.
        """
        now_s = self._clock.now_s()
        if error is not None:
            self._error, self._away_s = error, min(self._away_s, now_s)
            self._again_s = now_s + (RETRY_S if now_s - self._begun_s > SLOW_S else 0.0)
        assert self._error is not None, "a reason was given the first time"
        if now_s - self._away_s >= self._stale_max_s:
            raise self._error
