"""What a pool measures of itself: waits, run times, and the signals of its control loop. Pure."""

import math

from heddle.engines.vector.pool.feedback import PoolSignals
from heddle.engines.vector.pool.requests import Stage

LEARNT_SHARE = 0.1  # of what is learnt from one more finished search


class PoolMeters:
    """Counts since the control loop last ran, and how long searches take once they run.

    Args:
        first_s: how long a unit of a search's work takes, before any is measured [s].
    """

    def __init__(self, first_s: float = 1e-5) -> None:
        self._unit_s = dict.fromkeys(Stage, first_s)
        self._prefill_waits_s: list[float] = []
        self._stalled_s = self._decoded_s = 0.0

    def alone_s(self, stage: Stage, work: float) -> float:
        """Return how long a search of this stage should take once it runs [s]."""
        return self._unit_s[stage] * work

    def waited(self, stage: Stage, seconds: float) -> None:
        """Note how long a search waited for its slot."""
        if stage is Stage.PREFILL:
            self._prefill_waits_s.append(seconds)

    def ran(self, stage: Stage, work: float, seconds: float) -> None:
        """Note how long a search ran that was never parked."""
        self._unit_s[stage] += LEARNT_SHARE * (seconds / work - self._unit_s[stage])

    def decoded(self, stalled_s: float, decoded_s: float) -> None:
        """Note how long a decode waited for a search, and how long it decoded before it."""
        self._stalled_s += stalled_s
        self._decoded_s += decoded_s

    def take_signals(self, kv_link_use: float) -> PoolSignals:
        """Return the signals since the last call and begin anew."""
        waits_s = sorted(self._prefill_waits_s)
        place = math.ceil(0.95 * len(waits_s)) - 1
        total_s = self._stalled_s + self._decoded_s
        signals = PoolSignals(
            kv_link_use,
            waits_s[place] if waits_s else 0.0,
            self._stalled_s / total_s if total_s else 0.0,
        )
        self._prefill_waits_s = []
        self._stalled_s = self._decoded_s = 0.0
        return signals
