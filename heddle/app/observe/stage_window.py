"""How many requests came lately, and how many generations and searches they took."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from heddle.core.primitives import PrimitiveKind
from heddle.costs.memory_split import StageMix
from heddle.runtime.receipt import Receipt

PARTS: Final = 20
PART_S: Final = 30.0  # so the window is ten minutes
ANSWERS_MIN: Final = 32  # fewer say too little of the mix


@dataclass(slots=True)
class _Part:
    number: int
    came: int = 0
    answered: int = 0
    generations: int = 0
    searches: int = 0


@dataclass(slots=True)
class StageWindow:
    """Counts requests and their stages over the last ten minutes, in parts of 30 s.

    Args:
        started_s: when counting began [s].

    Mutates: `came` and `answered` count; times never decrease.
    """

    started_s: float
    _parts: deque[_Part] = field(default_factory=lambda: deque(maxlen=PARTS))

    def came(self, now_s: float) -> None:
        """Count a request that came, whether it was let in or not."""
        self._part(now_s).came += 1

    def answered(self, receipt: Receipt, now_s: float) -> None:
        """Count the stages of a request that has its answer."""
        part, (generations, searches) = self._part(now_s), stages_of(receipt)
        part.answered += 1
        part.generations += generations
        part.searches += searches

    def answers(self, now_s: float) -> int:
        """Return how many answered requests the window holds."""
        return sum(part.answered for part in self._recent(now_s))

    def mix(self, now_s: float) -> StageMix | None:
        """Return the stages of a request on average; None = there were too few requests."""
        answers, parts = self.answers(now_s), self._recent(now_s)
        if answers < ANSWERS_MIN:
            return None
        generations = sum(part.generations for part in parts)
        return StageMix(generations / answers, sum(part.searches for part in parts) / answers)

    def rate_per_s(self, now_s: float) -> float:
        """Return the requests a second that came, over at least 30 s."""
        first_s = (now_s // PART_S - PARTS + 1) * PART_S
        seconds = now_s - max(self.started_s, first_s)
        return sum(part.came for part in self._recent(now_s)) / max(seconds, PART_S)

    def _part(self, now_s: float) -> _Part:
        number = int(now_s // PART_S)
        if not self._parts or self._parts[-1].number < number:
            self._parts.append(_Part(number))
        return self._parts[-1]

    def _recent(self, now_s: float) -> list[_Part]:
        first = now_s // PART_S - PARTS + 1
        return [part for part in self._parts if part.number >= first]


def stages_of(receipt: Receipt) -> tuple[int, int]:
    """Return how many generations and how many searches a request took."""
    kinds = [span.kind for span in receipt.spans]
    return kinds.count(PrimitiveKind.DECODING), kinds.count(PrimitiveKind.SEARCHING)
