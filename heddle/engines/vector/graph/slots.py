"""Which search holds which slot, and what the scheduler has to know of it."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from heddle.core.tasks import Priority
from heddle.engines.vector.graph.scheduler import SearchRows, by_slack
from heddle.engines.vector.graph.search import GraphSearch


class GraphSlots:
    """A fixed number of slots and the searches in them, a row each."""

    def __init__(self, count: int) -> None:
        self._free = list(range(count - 1, -1, -1))
        self._searches: dict[int, GraphSearch] = {}
        self._priorities = np.zeros(count, np.int64)
        self._deadlines_s = np.zeros(count)
        self._expected = np.zeros(count)

    @property
    def count(self) -> int:
        """Slots in use."""
        return len(self._searches)

    @property
    def free(self) -> int:
        """Slots that are free."""
        return len(self._free)

    def search_in(self, slot: int) -> GraphSearch:
        """Return whose search runs in a slot."""
        return self._searches[slot]

    def take(self, search: GraphSearch, count: int, expected: float) -> NDArray[np.int64]:
        """Give free slots to a search whose deadline is settled; return them, [count].

        `expected` is how many extends a row of it should need.
        """
        assert search.deadline_s is not None, "a search without a deadline wants a slot"
        slots = [self._free.pop() for _ in range(count)]
        self._searches.update(dict.fromkeys(slots, search))
        self._priorities[slots] = search.priority.value
        self._deadlines_s[slots] = search.deadline_s
        self._expected[slots] = expected
        return np.array(slots, np.int64)

    def release(self, slot: int) -> None:
        """Free a slot."""
        del self._searches[slot]
        self._free.append(slot)

    def prioritise(self, search: GraphSearch, priority: Priority) -> None:
        """Move the slots of a search to another class."""
        self._priorities[list(search.rows_of)] = priority.value

    def ordered(
        self, extends: Callable[[NDArray[np.int64]], NDArray[np.int64]], extend_s: float
    ) -> tuple[NDArray[np.int64], float]:
        """Return the slots in use in the order in which to extend them, and the extends left.

        Args:
            extends: returns how many extends the searches of these slots have made.
            extend_s: what an extend takes [s].
        """
        slots = np.fromiter(self._searches, np.int64, len(self._searches))
        left = np.maximum(self._expected[slots] - extends(slots), 1.0)
        rows = SearchRows(self._priorities[slots], self._deadlines_s[slots], left)
        return slots[by_slack(rows, extend_s)], float(left.sum())
