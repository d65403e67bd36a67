"""All rows in flight: a slot table for each k, planned together."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from heddle.core.tasks import Priority
from heddle.engines.vector.scheduler import NO_LIST, Price, Rows, plan_substage, waited_after
from heddle.engines.vector.slots import SlotTable

TABLES_KEPT = 4  # empty slot tables kept for the next search with the same k

Share = tuple[SlotTable, NDArray[np.int64]]
"""A table and how many clusters each of its rows scans now, [count]."""


class SlotTables:
    """The slot tables of an engine, by k and the size of their heaps."""

    def __init__(self) -> None:
        self._by_shape: dict[tuple[int, int], SlotTable] = {}

    @property
    def count(self) -> int:
        """Rows in flight."""
        return sum(table.count for table in self._by_shape.values())

    @property
    def lists_left(self) -> int:
        """Clusters still to scan over all rows."""
        return sum(int(table.lists_left.sum()) for table in self._by_shape.values())

    def table(self, k: int, heap: int, dims: int) -> SlotTable:
        """Return the table for this k, its heaps so large; an idle one may make room for it."""
        shape = (k, heap)
        if shape not in self._by_shape:
            idle = [shape for shape, table in self._by_shape.items() if not table.count]
            for old in idle[: max(0, len(idle) - TABLES_KEPT + 1)]:
                del self._by_shape[old]
            self._by_shape[shape] = SlotTable(k, heap, dims)
        return self._by_shape[shape]

    def remove(self, task_id: int) -> None:
        """Free the rows of a task."""
        for table in self._by_shape.values():
            table.remove(table.rows_of(task_id))

    def prioritise(self, task_id: int, priority: Priority) -> None:
        """Move the rows of a task to another class."""
        for table in self._by_shape.values():
            table.priorities[table.rows_of(task_id)] = priority.value

    def plan(self, price: Price, budget_s: float, lists_max: int | None) -> list[Share]:
        """Return what each row scans in the next sub-stage; see `plan_substage`.

        Mutates: the tables' waited.
        """
        tables = [table for table in self._by_shape.values() if table.count]
        if not tables:
            return []
        rows = Rows(
            lists_left=_joined(tables, lambda table: table.lists_left),
            priorities=_joined(tables, lambda table: table.priorities[: table.count]),
            waited=_joined(tables, lambda table: table.waited[: table.count]),
            arrivals=_joined(tables, lambda table: table.task_ids[: table.count]),
        )
        planned = plan_substage(
            rows, lambda asked: _upcoming(tables, asked), price, budget_s, lists_max
        )
        waited = waited_after(planned, rows.waited)
        shares, first = [], 0
        for table in tables:
            mine = slice(first, first + table.count)
            table.waited[: table.count] = waited[mine]
            shares.append((table, planned[mine]))
            first += table.count
        return shares


def _upcoming(tables: Sequence[SlotTable], asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what rows, counted over all tables, scan from now on, [m, w]."""
    if len(tables) == 1:
        return tables[0].upcoming(asked)
    parts, first = [], 0
    for table in tables:
        here = np.flatnonzero((asked >= first) & (asked < first + table.count))
        parts.append((here, table.upcoming(asked[here] - first)))
        first += table.count
    lists = np.full((len(asked), max(part.shape[1] for _, part in parts)), NO_LIST, np.int64)
    for here, part in parts:
        lists[here, : part.shape[1]] = part
    return lists


def _joined(
    tables: Sequence[SlotTable], column: Callable[[SlotTable], NDArray[np.int64]]
) -> NDArray[np.int64]:
    if len(tables) == 1:
        return column(tables[0])
    return np.concatenate([column(table) for table in tables])
