"""How long graph searches should take: from what an extend takes, and how many they need. Pure."""

from collections.abc import Callable

from heddle.core.cost_snapshot import CostSnapshot
from heddle.engines.vector.graph.scheduler import soft_deadline_s
from heddle.engines.vector.graph.search import GraphSearch

PRIOR_SHARE_MIN = 0.1  # of the first guess: an extend is never taken to cost less
EXTENDS_PER_TOPM = 1.2  # before anything is measured
LEARNT_SHARE = 0.05  # of what is learnt from one more finished search


class ExtendTimes:
    """Predicts when searches are due, and learns from those that end.

    Args:
        costs: returns the cost model of a step.
        prior_s: the first guess of what an extend takes [s].
    """

    def __init__(self, costs: Callable[[], CostSnapshot], prior_s: float) -> None:
        self._costs = costs
        self._extend_s_min = PRIOR_SHARE_MIN * prior_s
        self._extends_per_topm = EXTENDS_PER_TOPM

    @property
    def extend_s(self) -> float:
        """What an extend takes [s]."""
        # A model that takes extends for free would let one step go on for ever.
        return max(self._costs().coefficients_s["extends"], self._extend_s_min)

    def expect(self, search: GraphSearch, now_s: float, *, vectors: int) -> None:
        """Settle what a search should need that has come; see `settle`."""
        search.expected = search.topm * self._extends_per_topm
        search.came_s = now_s
        self.settle(search, vectors=vectors)

    def settle(self, search: GraphSearch, *, vectors: int) -> None:
        """Settle when a search is due that is compared with `vectors` outside the graph."""
        costs = self._costs().coefficients_s
        alone_s = costs["rows"] + search.expected * self.extend_s + costs["compared"] * vectors
        search.deadline_s = soft_deadline_s(search.came_s, search.seconds_left, alone_s)

    def learn(self, search: GraphSearch, extends: int) -> None:
        """Learn from the extends that a row of a search has made."""
        made = extends / search.topm
        self._extends_per_topm += LEARNT_SHARE * (made - self._extends_per_topm)
