"""How far predictions of finish are stretched, so that few admitted queries are late."""

from dataclasses import dataclass
from typing import Final

LATE_FROM: Final = 0.9  # of its time: a lane that falls behind is noticed before it is late
LATE_TARGET: Final = 0.002  # of the answers; what is learnt late, several at once, comes on top
STRETCH_STEP: Final = 0.2  # that one late answer adds
STRETCH_MAX: Final = 3.0
STRETCH_START: Final = 1.7  # of a lane that nothing was learnt of; 1750 answers in time undo it


@dataclass(slots=True)
class LateGuard:
    """Learns a lane's stretch from its own answers: each late one lengthens it, others shorten it.

    A step's 95 % bound says little of a query that waits for several steps, or for one. This
    closes the gap for every cause: noise, lengths guessed wrongly, steps in another order. As
    long as the stretch isn't at its maximum, the share of late answers comes to the target or
    less for any sequence of answers.

    Mutates: `answered` moves `stretch`.
    Source: Gibbs & Candès 2021, Adaptive Conformal Inference under Distribution Shift, eq. 2.
    """

    stretch: float = STRETCH_START

    def answered(self, time_used: float) -> None:
        """Take in what share of its time an answer took; one above `LATE_FROM` counts as late."""
        stretch = self.stretch + STRETCH_STEP * ((time_used > LATE_FROM) - LATE_TARGET)
        self.stretch = min(max(1.0, stretch), STRETCH_MAX)
