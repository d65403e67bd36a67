"""All rows in flight: a slot table for each k and filter, planned together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from heddle.core.tasks import Priority
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.ivf.scheduler import NO_LIST, Price, Rows, plan_shared, plan_substage
from heddle.engines.vector.ivf.shared_slots import SharedSlotTable
from heddle.engines.vector.ivf.slots import SlotTable

TABLES_KEPT = 4  # empty slot tables kept for the next search with the same k

ListPrices = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Rows that share the scan of each list -> predicted seconds to scan it, [nlist] each."""

N = TypeVar("N", np.int64, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """What rows [m] of a table scan now: lists [m, w], NO_LIST = none."""

    table: SlotTable
    rows: NDArray[np.int64]
    lists: NDArray[np.int64]


class SlotTables:
    """The slot tables of an engine, by k, the size of their heaps and what they may find."""

    def __init__(self) -> None:
        self._by_shape: dict[tuple[int, int, Allowed | None, int], SlotTable] = {}

    @property
    def count(self) -> int:
        """Rows in flight."""
        return sum(table.count for table in self._by_shape.values())

    @property
    def lists_left(self) -> int:
        """Clusters still to scan over all rows."""
        return sum(int(table.lists_left.sum()) for table in self._by_shape.values())

    def table(
        self, k: int, heap: int, dims: int, allowed: Allowed | None, shared_lists: int = 0
    ) -> SlotTable:
        """Return the table for this k, its heaps so large; an idle one may make room for it.

        `shared_lists`: the lists of the index, if rows share their scans, else 0.
        """
        shape = (k, heap, allowed, shared_lists)
        if shape not in self._by_shape:
            idle = [shape for shape, table in self._by_shape.items() if not table.count]
            for old in idle[: max(0, len(idle) - TABLES_KEPT + 1)]:
                del self._by_shape[old]
            if shared_lists:
                table: SlotTable = SharedSlotTable(k, heap, dims, allowed, shared_lists)
            else:
                table = SlotTable(k, heap, dims, allowed)
            self._by_shape[shape] = table
        return self._by_shape[shape]

    def remove(self, task_id: int) -> None:
        """Free the rows of a task."""
        for table in self._by_shape.values():
            table.remove(table.rows_of(task_id))

    def prioritise(self, task_id: int, priority: Priority) -> None:
        """Move the rows of a task to another class."""
        for table in self._by_shape.values():
            table.priorities[table.rows_of(task_id)] = priority.value

    def take(self, price: Price, budget_s: float, lists_max: int | None) -> list[Portion]:
        """Return what rows scan in the next sub-stage, each its own lists; see `plan_substage`.

        Mutates: how far the rows are.
        """
        tables = self._in_use()
        planned = plan_substage(
            _rows(tables), lambda asked: _upcoming(tables, asked), price, budget_s, lists_max
        )
        portions, first = [], 0
        for table in tables:
            stop = first + table.count
            portions.append(Portion(table, *table.take(planned[first:stop])))
            first = stop
        return [portion for portion in portions if len(portion.rows)]

    def take_shared(self, prices: ListPrices, budget_s: float) -> list[Portion]:
        """Return what rows scan in the next sub-stage, all the same lists; see `plan_shared`.

        Mutates: how far the rows are.
        """
        tables = [cast("SharedSlotTable", table) for table in self._in_use()]
        wanting = np.sum([table.wanting for table in tables], axis=0)
        lists = plan_shared(
            _rows(tables), lambda row: _pending(tables, row), wanting, prices(wanting), budget_s
        )
        portions = [Portion(table, *table.take_shared(lists)) for table in tables]
        return [portion for portion in portions if len(portion.rows)]

    def _in_use(self) -> list[SlotTable]:
        return [table for table in self._by_shape.values() if table.count]


def _rows(tables: Sequence[SlotTable]) -> Rows:
    return Rows(
        lists_left=_joined(tables, lambda table: table.lists_left),
        priorities=_joined(tables, lambda table: table.priorities[: table.count]),
        ranks=_joined(tables, lambda table: table.ranks[: table.count]),
        arrivals=_joined(tables, lambda table: table.task_ids[: table.count]),
    )


def _pending(tables: Sequence[SharedSlotTable], row: int) -> NDArray[np.int64]:
    """Return the lists that a row, counted over all tables, has yet to scan, [m]."""
    for table in tables:
        if row < table.count:
            return table.pending(row)
        row -= table.count
    raise IndexError(row)


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


def _joined(tables: Sequence[SlotTable], column: Callable[[SlotTable], NDArray[N]]) -> NDArray[N]:
    if len(tables) == 1:
        return column(tables[0])
    return np.concatenate([column(table) for table in tables])
