"""All rows in flight: a slot table for each k, planned together."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from heddle.core.tasks import Priority
from heddle.engines.vector.scheduler import Price, Rows, plan_substage, served_after
from heddle.engines.vector.slots import SlotTable

TABLES_KEPT = 4  # empty slot tables kept for the next search with the same k

Share = tuple[SlotTable, NDArray[np.int64]]
"""A table and how many clusters each of its rows scans now, [count]."""


class SlotTables:
    """The slot tables of an engine, by k."""

    def __init__(self) -> None:
        self._by_k: dict[int, SlotTable] = {}

    @property
    def count(self) -> int:
        """Rows in flight."""
        return sum(table.count for table in self._by_k.values())

    @property
    def lists_left(self) -> int:
        """Clusters still to scan over all rows."""
        return sum(int(table.lists_left.sum()) for table in self._by_k.values())

    def table(self, k: int, dims: int) -> SlotTable:
        """Return the table for this k; one that was idle may make room for it."""
        if k not in self._by_k:
            idle = [k for k, table in self._by_k.items() if not table.count]
            for old in idle[: max(0, len(idle) - TABLES_KEPT + 1)]:
                del self._by_k[old]
            self._by_k[k] = SlotTable(k, dims)
        return self._by_k[k]

    def remove(self, task_id: int) -> None:
        """Free the rows of a task."""
        for table in self._by_k.values():
            table.remove(table.rows_of(task_id))

    def prioritise(self, task_id: int, priority: Priority) -> None:
        """Move the rows of a task to another class."""
        for table in self._by_k.values():
            table.priorities[table.rows_of(task_id)] = priority.value

    def plan(self, price: Price, budget_s: float, lists_max: int | None) -> list[Share]:
        """Return what each row scans in the next sub-stage; see `plan_substage`.

        Mutates: the tables' served_at.
        """
        tables = [table for table in self._by_k.values() if table.count]
        if not tables:
            return []
        rows = Rows(
            lists_left=_joined(tables, lambda table: table.lists_left),
            priorities=_joined(tables, lambda table: table.priorities[: table.count]),
            served_at=_joined(tables, lambda table: table.served_at[: table.count]),
        )
        planned = plan_substage(
            rows,
            lambda first, stop: _joined(tables, lambda table: table.upcoming(first, stop)),
            price,
            budget_s,
            lists_max,
        )
        served_at = served_after(planned, rows.served_at)
        shares, first = [], 0
        for table in tables:
            mine = slice(first, first + table.count)
            table.served_at[: table.count] = served_at[mine]
            shares.append((table, planned[mine]))
            first += table.count
        return shares


def _joined(
    tables: Sequence[SlotTable], column: Callable[[SlotTable], NDArray[np.int64]]
) -> NDArray[np.int64]:
    if len(tables) == 1:
        return column(tables[0])
    return np.concatenate([column(table) for table in tables])
