"""How busy an engine is, and what more work would cost those who wait for it. Pure."""

import math
from dataclasses import dataclass
from typing import Final

MEMORY_S: Final = 10.0  # what was this long ago counts 1/e
SHARE_MAX: Final = 0.95  # a share measured over some seconds is no surer than this
CALM_S: Final = 1.0  # without work, that every engine is taken to have had at first


@dataclass(slots=True)
class Utilisation:
    """Measures the share of time that an engine works, and the calls that it holds on average.

    Mutates: `enter`, `leave` and `work` take in what happens, in the order of its times.
    """

    held: int = 0
    _at_s: float = 0.0
    _passed_s: float = CALM_S
    _worked_s: float = 0.0
    _held_s: float = 0.0  # calls times how long each was there

    def enter(self, now_s: float) -> None:
        """Count a call that somebody waits for."""
        self._pass(now_s)
        self.held += 1

    def leave(self, now_s: float) -> None:
        """Count a call that has ended."""
        self._pass(now_s)
        self.held -= 1

    def work(self, seconds: float, now_s: float) -> None:
        """Count a step that has ended just now."""
        self._pass(now_s)
        self._worked_s += seconds

    @property
    def share(self) -> float:
        """The share of time that the engine has lately worked, at most `SHARE_MAX`."""
        return min(SHARE_MAX, self._worked_s / self._passed_s)

    @property
    def delay(self) -> float:
        """How much later all calls end, taken together, for each second of work that is added.

        An engine that shares its time among the calls it holds, as continuous batching does, holds
        one of S seconds for T = S / (1 - u) while it works a share u of the time. So T grows by
        T / (1 - u) with u, and by Little's law the L calls that are there on average lose
        L / (1 - u) seconds in all.
        """
        return self._held_s / self._passed_s / (1.0 - self.share)

    def _pass(self, now_s: float) -> None:
        """Let time pass: what was counted fades, and the calls that are held go on."""
        if now_s == self._at_s:
            return  # most of what happens in one cycle
        passed_s, self._at_s = now_s - self._at_s, now_s
        if not self._worked_s and not self._held_s and not self.held:
            return  # nothing has happened yet: the clock may have begun anywhere
        kept = math.exp(-passed_s / MEMORY_S)
        new_s = MEMORY_S * (1.0 - kept)
        self._passed_s = self._passed_s * kept + new_s
        self._held_s = self._held_s * kept + self.held * new_s
        self._worked_s *= kept
