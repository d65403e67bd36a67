"""The vectors that a search with a filter may find."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.source import VectorSource

SCOPES_KEPT: Final = 16
FEW_SHARE: Final = 0.02  # of the corpus; for fewer, comparing each is quicker than looking for them
FEW_MIN: Final = 1_000  # up to this many are always compared at once
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

    def holds(self, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some labels are among them; any shape, -1 never is."""
        places = labels >> 3
        is_known = (labels >= 0) & (places < len(self.bits))
        is_set: NDArray[np.bool_] = self.bits[np.where(is_known, places, 0)] >> (labels & 7) & 1 > 0
        return is_known & is_set


class KeptScopes:
    """What the scopes used last let a search find, looked up once for each state of the corpus.

    It is cleared before the index changes: of a corpus that goes away half-way it holds others'
    chunks, which a scope that was looked up before would let through.

    Args:
        source: the corpus.
        allowed: makes of chunk ids [n] what an index's searches are given.
    """

    def __init__(
        self, source: VectorSource, allowed: Callable[[NDArray[np.int64]], Allowed]
    ) -> None:
        self._source, self._allowed = source, allowed
        self._kept: OrderedDict[tuple[SearchScope, int], Allowed | None] = OrderedDict()

    def at(self, scope: SearchScope, revision: int) -> Allowed | None:
        """Return what a scope lets a search find at a revision; None = everything.

        Raises: InputError: nothing fits the scope.
        """
        key = (scope, revision)
        if key not in self._kept:
            chunk_ids = self._source.allowed(scope)
            if len(self._kept) == SCOPES_KEPT:
                self._kept.popitem(last=False)
            self._kept[key] = None if chunk_ids is None else self._allowed(chunk_ids)
        self._kept.move_to_end(key)
        return self._kept[key]

    def clear(self) -> None:
        """Forget them all: the index that they were made for is going, or changes."""
        self._kept.clear()


def are_few(allowed: int, count: int) -> bool:
    """Whether `allowed` of `count` vectors are few enough to compare each."""
    return allowed <= min(FEW_MAX, max(FEW_MIN, FEW_SHARE * count))
