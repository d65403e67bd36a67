"""The vectors that a search with a filter may find."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

FEW_SHARE: Final = 0.02  # of the corpus; for fewer, comparing each is quicker than looking for them
FEW_MIN: Final = 1_000  # so many are always compared at once
FEW_MAX: Final = 20_000  # a step compares no more, as it isn't cut


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """Labels of an index, ascending, [n] int64, and the same as bits: label i is bit i.

    `is_few`: each is compared with the query; no list is looked through for them.
    """

    labels: NDArray[np.int64]
    bits: NDArray[np.uint8]
    is_few: bool

    @classmethod
    def of(cls, labels: NDArray[np.int64], *, is_few: bool) -> "Allowed":
        """Return these labels, given in any order, each once."""
        # One bit at least: to a scan no bits at all mean that everything is allowed.
        flags = np.zeros(int(labels.max(initial=0)) + 1, bool)
        flags[labels] = True
        return cls(np.sort(labels), np.packbits(flags, bitorder="little"), is_few)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.labels)


def are_few(allowed: int, count: int) -> bool:
    """Whether so many of `count` vectors are few enough to compare each."""
    return allowed <= min(FEW_MAX, max(FEW_MIN, FEW_SHARE * count))
