"""How often guesses win, beside how often they were predicted to. Pure."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

KINDS_KEPT: Final = 256
HALF_LIFE_S: Final = 60.0
PRIOR: Final = 4.0  # guesses that are taken to have won as predicted before any has ended


@dataclass(slots=True)
class Record:
    """Guesses of one kind that have ended: how many were to win, and how many have won."""

    predicted: float = 0.0
    won: float = 0.0
    at_s: float = 0.0

    def fade(self, now_s: float) -> None:
        """Count what is old less: half for each half-life."""
        share = 0.5 ** ((now_s - self.at_s) / HALF_LIFE_S)
        self.predicted, self.won, self.at_s = self.predicted * share, self.won * share, now_s


@dataclass(slots=True)
class WinRates:
    """The measured outcome of guesses, for each kind, over their predictions.

    A kind whose guesses lose gets a ratio near 0, so that no guess of that kind pays. The record
    fades with time. Then guesses of that kind are tried again.

    Mutates: `learn` adds an outcome; the kinds used longest ago are forgotten.
    """

    _records: OrderedDict[tuple[str, ...], Record] = field(default_factory=OrderedDict)

    def learn(
        self, kind: tuple[str, ...], probability: float, now_s: float, *, has_won: bool
    ) -> None:
        """Take in how a guess has ended that was predicted to win with this probability."""
        record = self._records.get(kind)
        if record is None:
            if len(self._records) == KINDS_KEPT:
                self._records.popitem(last=False)
            record = self._records[kind] = Record(at_s=now_s)
        self._records.move_to_end(kind)
        record.fade(now_s)
        record.predicted += probability
        record.won += has_won

    def ratio(self, kind: tuple[str, ...], now_s: float) -> float:
        """Return wins over predicted wins, at most 1; predictions are multiplied by it."""
        record = self._records.get(kind)
        if record is None:
            return 1.0
        record.fade(now_s)
        return min(1.0, (record.won + PRIOR) / (record.predicted + PRIOR))
