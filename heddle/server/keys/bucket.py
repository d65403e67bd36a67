"""An amount that refills evenly: how much a key may still use."""

import math


class Bucket:
    """Holds up to one minute's amount, and may be overdrawn.

    The cost of a request in tokens is known when it has ended. So a request is admitted while
    something is left, and is charged an estimate, then the rest; the next one waits for a debt.

    Args:
        per_minute: what flows in, and the most that it holds; inf = no limit.
    """

    def __init__(self, per_minute: float) -> None:
        self._per_minute = self._level = per_minute
        self._as_of_s = -math.inf  # it begins full

    def wait_s(self, now_s: float) -> float:
        """Return the time until 1 is there; 0 = now.

        Mutates: adds what has flowed in since the last call.
        """
        if math.isinf(self._per_minute):
            return 0.0
        passed_s = max(0.0, now_s - self._as_of_s)
        self._level = min(self._per_minute, self._level + passed_s * self._per_minute / 60)
        self._as_of_s = max(self._as_of_s, now_s)
        return max(0.0, (1 - self._level) * 60 / self._per_minute)

    def take(self, amount: float) -> None:
        """Take an amount, whether it is there or not."""
        self._level -= amount
