"""How likely the hits that a search has by now are its final ones, by how others went. Pure."""

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.early_stop.looks import looks_at

KINDS_KEPT: Final = 64  # one is some kilobytes
STABLE_MAX: Final = 4  # looks; hits that were the same for longer are not told apart
SEEN_MIN: Final = 16  # searches in the same state before anything is said about it
SEEN_MAX: Final = 512  # then the counts are halved, so that they follow what is asked
ANY_PLANNED: Final = 0  # the kind of all searches that want as many hits, of any length
LISTS_MAX: Final = 1 << 20  # more than an index has; looks come at the same counts in any search


class Kind(NamedTuple):
    """What searches that are compared have in common: hits wanted, clusters planned, a filter.

    One with a filter meets fewer vectors in a cluster, so its hits change for longer.
    """

    k: int
    planned: int
    is_filtered: bool = False


class Look(NamedTuple):
    """A search at a look: which one, for how many the hits have been these, and the hits [k]."""

    turn: int
    stable: int
    labels: NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Counted:
    """Searches of one kind that have ended, by their states on the way.

    Shapes: looks [c] clusters scanned so far, ascending; counts [c, STABLE_MAX + 1, 2] searches
    that were in each state, and those of them whose hits were final.
    """

    looks: list[int]
    counts: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros((len(self.looks), STABLE_MAX + 1, 2), np.int64)


@dataclass(slots=True, eq=False)
class Watched:
    """A search on its way, and what was seen of it; `pooled` counts those of any length."""

    counted: Counted
    pooled: Counted
    seen: list[Look] = field(default_factory=list)


class Finality:
    """Looks at searches while they go through their clusters, and learns from how they end.

    A search's state is after how many of its clusters it is looked at, and for how many looks its
    hits have been the same. The probability is the share of earlier searches in that state whose
    hits were the final ones, in the same order, as if one more had ended with others; so it holds
    for any question, and for any kind of index, and needs no exact answer: every search ends.
    As long as few searches have planned as many clusters, those of any length count, after as many
    clusters or fewer: that share is too low rather than too high.
    """

    def __init__(self) -> None:
        self._kinds: OrderedDict[Kind, Counted] = OrderedDict()
        self._watched: dict[int, Watched] = {}

    def is_due(self, task_id: int, kind: Kind, scanned: int) -> bool:
        """Whether a search has come to a look since the last one at it."""
        watched = self._watched.get(task_id)
        if watched is None:
            pooled = self._counted(kind._replace(planned=ANY_PLANNED))
            watched = self._watched[task_id] = Watched(self._counted(kind), pooled)
        last = watched.seen[-1].turn if watched.seen else -1
        return bisect_right(watched.counted.looks, scanned) - 1 > last

    def look(self, task_id: int, scanned: int, labels: NDArray[np.int64]) -> float:
        """Return how likely the hits of a search that is due are its final ones; 0 = not known.

        Shapes: labels [k], in order.
        """
        watched = self._watched[task_id]
        counted, turn = watched.counted, bisect_right(watched.counted.looks, scanned) - 1
        stable = 0
        if watched.seen and np.array_equal(watched.seen[-1].labels, labels):
            before = watched.seen[-1]
            stable = min(before.stable + turn - before.turn, STABLE_MAX)
        watched.seen.append(Look(turn, stable, labels))
        seen, final = counted.counts[turn, stable].tolist()
        if seen < SEEN_MIN:
            seen, final = watched.pooled.counts[: turn + 1, stable].sum(axis=0).tolist()
        return float(final / (seen + 1)) if seen >= SEEN_MIN else 0.0

    def learn(self, task_id: int, labels: NDArray[np.int64]) -> None:
        """Take in what a search has found in the end, [k], in order."""
        watched = self._watched.pop(task_id, None)
        if watched is None:
            return
        for look in watched.seen:
            is_final = np.array_equal(look.labels, labels)
            for counted in (watched.counted, watched.pooled):
                state = counted.counts[look.turn, look.stable]
                state += 1, is_final
                if state[0] >= SEEN_MAX:
                    state //= 2

    def forget(self, task_id: int) -> None:
        """Give up a search that never ended; others are left alone."""
        self._watched.pop(task_id, None)

    def _counted(self, kind: Kind) -> Counted:
        if kind not in self._kinds:
            if len(self._kinds) == KINDS_KEPT:
                self._kinds.popitem(last=False)
            # After all its clusters a search is over.
            self._kinds[kind] = Counted(looks_at(kind.planned or LISTS_MAX, 1)[:-1].tolist())
        self._kinds.move_to_end(kind)
        return self._kinds[kind]
