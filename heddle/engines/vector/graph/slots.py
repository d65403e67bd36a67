"""Which search holds which slot, and in which order they are extended. Pure."""

from heddle.engines.vector.graph.scheduler import slack_s
from heddle.engines.vector.graph.search import GraphSearch


class GraphSlots:
    """A fixed number of slots and the searches in them, a row each."""

    def __init__(self, count: int) -> None:
        self._free = list(range(count - 1, -1, -1))
        self._searches: dict[int, GraphSearch] = {}

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

    def take(self, search: GraphSearch, count: int) -> list[int]:
        """Give free slots to a search; return them, [count]."""
        slots = [self._free.pop() for _ in range(count)]
        self._searches.update(dict.fromkeys(slots, search))
        return slots

    def release(self, slot: int) -> None:
        """Free a slot."""
        del self._searches[slot]
        self._free.append(slot)

    def lets_in(self, search: GraphSearch, tasks_max: int) -> bool:
        """Whether a search may begin: fewer tasks run, or it is more urgent than all of them."""
        if len(self._searches) < tasks_max:
            return True  # without counting whose slots they are
        running = {other.task_id: other for other in self._searches.values()}
        if len(running) < tasks_max:
            return True
        return search.urgency < min(other.urgency for other in running.values())

    def ordered(self, extends: list[int], extend_s: float) -> list[int]:
        """Return the slots in use in the order in which to extend them: by class, then by slack.

        Args:
            extends: how many the search of each slot has made, in use or not.
            extend_s: what an extend takes [s].
        """

        def key(slot: int) -> tuple[int, float]:
            search = self._searches[slot]
            left = max(search.expected - extends[slot], 1.0)
            return search.priority, slack_s(search.deadline_s, left, extend_s)

        return sorted(self._searches, key=key)
