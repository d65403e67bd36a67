"""Searches with rows that have no slot yet, the most urgent first. Pure."""

import heapq

from heddle.engines.vector.graph.search import GraphSearch


class WaitingSearches:
    """A heap by class and deadline; what ended or changed its class is passed over later."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, float], int, GraphSearch]] = []
        self._count = 0

    def add(self, search: GraphSearch) -> None:
        """Queue a search, or queue it anew under another class, if it waits at all."""
        if search.rows_waiting:
            self._count += 1  # equals in the order in which they came
            heapq.heappush(self._heap, (search.urgency, self._count, search))

    def first(self) -> GraphSearch | None:
        """Return the most urgent search that has rows to give a slot to."""
        while self._heap:
            urgency, _, search = self._heap[0]
            is_current = search.urgency == urgency and not search.is_dropped
            if is_current and search.rows_waiting:
                return search
            heapq.heappop(self._heap)
        return None
