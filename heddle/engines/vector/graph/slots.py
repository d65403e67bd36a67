"""Which search holds which slot, and in which order they go on. Pure."""

from heddle.engines.vector.graph.comparing import ComparedRow
from heddle.engines.vector.graph.scheduler import slack_s
from heddle.engines.vector.graph.search import GraphSearch


class GraphSlots:
    """A fixed number of slots and the searches in them, a row each.

    A row goes through the graph, is compared with vectors one by one, or does that after the other.
    """

    def __init__(self, count: int) -> None:
        self._free = list(range(count - 1, -1, -1))
        self._searches: dict[int, GraphSearch] = {}  # that go through the graph
        self._compared: dict[int, ComparedRow] = {}

    @property
    def count(self) -> int:
        """Slots in use."""
        return len(self._searches) + len(self._compared)

    @property
    def extended(self) -> int:
        """Slots whose searches go through the graph."""
        return len(self._searches)

    @property
    def compared(self) -> int:
        """Slots whose rows are compared one by one."""
        return len(self._compared)

    @property
    def free(self) -> int:
        """Slots that are free."""
        return len(self._free)

    def search_in(self, slot: int) -> GraphSearch:
        """Return whose search goes through the graph in a slot."""
        return self._searches[slot]

    def is_extended(self, slot: int) -> bool:
        """Whether a slot's search goes through the graph."""
        return slot in self._searches

    def take(self, search: GraphSearch, count: int) -> list[int]:
        """Give free slots to a search; return them, [count]."""
        slots = [self._free.pop() for _ in range(count)]
        self._searches.update(dict.fromkeys(slots, search))
        return slots

    def compare(self, slot: int, row: ComparedRow) -> None:
        """Have a slot's row compared one by one from now on."""
        self._searches.pop(slot, None)
        self._compared[slot] = row

    def release(self, slot: int) -> None:
        """Free a slot."""
        if self._compared.pop(slot, None) is None:
            del self._searches[slot]
        self._free.append(slot)

    def lets_in(self, search: GraphSearch, tasks_max: int) -> bool:
        """Whether a search may begin: fewer tasks go through the graph, or it is more urgent."""
        if len(self._searches) < tasks_max:
            return True  # without counting whose slots they are
        running = {other.task_id: other for other in self._searches.values()}
        if len(running) < tasks_max:
            return True
        return search.urgency < min(other.urgency for other in running.values())

    def ordered(self, extends: list[int], extend_s: float) -> list[int]:
        """Return the slots to extend in that order: by class, then by slack.

        Args:
            extends: how many the search of each slot has made, in use or not.
            extend_s: what an extend takes [s].
        """

        def key(slot: int) -> tuple[int, float]:
            search = self._searches[slot]
            left = max(search.expected - extends[slot], 1.0)
            return search.priority, slack_s(search.deadline_s, left, extend_s)

        return sorted(self._searches, key=key)

    def compared_first(self) -> list[tuple[int, ComparedRow]]:
        """Return the slots whose rows are compared one by one, the most urgent first."""
        return sorted(self._compared.items(), key=lambda item: item[1].search.urgency)
