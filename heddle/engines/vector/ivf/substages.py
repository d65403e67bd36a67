"""The rows in flight over inverted lists, advanced a sub-stage at a time. (HedraRAG §4.2)"""

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.ivf.early_stop.finality import Finality, Kind
from heddle.engines.vector.ivf.early_stop.target_stops import TargetStops
from heddle.engines.vector.ivf.scanner_port import IvfCorpus
from heddle.engines.vector.ivf.scheduler import NO_LIST
from heddle.engines.vector.ivf.search import IvfSearch
from heddle.engines.vector.ivf.slot_tables import Portion, SlotTables
from heddle.engines.vector.ivf.slots import SlotTable
from heddle.engines.vector.ivf.step_counts import StepCounts
from heddle.engines.vector.recall.self_check import Sample
from heddle.engines.vector.search import SortedHits
from heddle.engines.vector.search_tasks import SearchTasks


class Substages:
    """Plans and runs sub-stages: each scans some lists of the rows in flight.

    A sub-stage plans by the cost model which rows scan which lists within the budget, scans them,
    reports partial hits where they are due, and takes the hits of the rows that have scanned
    enough. A task whose rows all have hits ends.

    Args:
        tasks: the engine's searches.
        corpus: serves the lists.
        stops: ends rows early at a promised recall; None = each row scans all its lists.
        finality: predicts how likely partial hits are the final ones; None = nothing does.
        lists_per_step: the most lists one query scans in a step; None leaves it to the budget.
    """

    def __init__(
        self,
        tasks: SearchTasks[IvfSearch],
        corpus: IvfCorpus,
        stops: TargetStops | None,
        finality: Finality | None,
        lists_per_step: int | None,
    ) -> None:
        self._tasks, self._corpus = tasks, corpus
        self._stops, self._finality = stops, finality
        self._lists_per_step = lists_per_step
        self.tables = SlotTables()

    def table(self, k: int, dims: int, allowed: Allowed | None) -> SlotTable:
        """Return the table for rows that ask for k hits among what is allowed."""
        shared_lists = len(self._corpus.scanner.list_sizes) if self._shares_lists else 0
        return self.tables.table(k, self._corpus.scanner.heap_size(k), dims, allowed, shared_lists)

    def drop(self, search: IvfSearch) -> None:
        """Free the rows of a search, and what was kept to end or predict it."""
        if search.rows_joined > search.rows_done:
            self.tables.remove(search.task_id)
        if self._stops is not None:
            self._stops.forget(search.task_id)
        if self._finality is not None:
            self._finality.forget(search.task_id)

    def run(self, counts: StepCounts, budget_s: float) -> None:
        """Run one sub-stage over every row in flight.

        Args:
            counts: of this step so far; the sub-stage adds its own.
            budget_s: time for the whole step [s].
        """
        rows_in_flight = self.tables.count
        if not rows_in_flight:
            return
        costs = self._tasks.costs.coefficients_s
        left_s = budget_s - costs["call"] - costs["rows"] * counts.rows
        if self._shares_lists:
            left_s -= costs["scans"] * rows_in_flight
            portions = self.tables.take_shared(self._shared_prices, left_s)
        else:
            portions = self.tables.take(self._price, left_s, self._lists_per_step)
        for portion in portions:
            self._scan(portion, counts)
        for portion in portions:
            self._collect(portion.table)

    def sizes(self, lists: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the vectors in each list, of the same shape; any number for NO_LIST."""
        return self._corpus.scanner.list_sizes.take(lists, mode="wrap")

    @property
    def _shares_lists(self) -> bool:
        """Whether rows share the scan of a list, each in the order that this needs."""
        return self._corpus.scanner.shares_lists and self._lists_per_step is None

    def _price(self, lists: NDArray[np.int64]) -> NDArray[np.float64]:
        costs = self._tasks.costs.coefficients_s
        prices_s = self.sizes(lists).astype(np.float64) * costs["vectors"] + costs["lists"]
        prices_s[:, 0] += costs["scans"]  # once a row
        return prices_s

    def _shared_prices(self, wanting: NDArray[np.int64]) -> NDArray[np.float64]:
        costs = self._tasks.costs.coefficients_s
        vector_s = costs["vectors"] + costs["ridden"] * (wanting - 1)
        return self._corpus.scanner.list_sizes * vector_s + costs["lists"]

    def _scan(self, portion: Portion, counts: StepCounts) -> None:
        """Scan a portion, and report the partial hits that are due."""
        if not self._has_scanned(portion):
            return
        self._count(portion.lists, counts)
        if self._tasks.reporting:
            self._tell_progress(portion.table, np.unique(portion.table.task_ids[portion.rows]))

    def _has_scanned(self, portion: Portion) -> bool:
        """Bring the lists of a portion into its heaps; where that fails, so do its tasks."""
        table, rows, lists = portion.table, portion.rows, portion.lists
        queries, distances, labels = table.queries[rows], table.distances[rows], table.labels[rows]
        with self._tasks.failing("scan failed", _tasks_of(table, rows)):
            on_device = self._corpus.scanner.scan(queries, lists, distances, labels, table.allowed)
            table.distances[rows], table.labels[rows] = distances, labels
            if on_device is not None:
                table.on_device[rows] += on_device
            return True
        return False

    def _count(self, lists: NDArray[np.int64], counts: StepCounts) -> None:
        """Count what a scan of lists [m, w] took: those that rows share are read once."""
        scanned = lists[lists != NO_LIST]
        compared = int(self.sizes(scanned).sum())
        read = lists.max(axis=0) if self._shares_lists else scanned
        vectors = int(self.sizes(read).sum())
        counts.lists += len(read)
        counts.vectors += vectors
        counts.ridden += compared - vectors
        counts.scans += len(lists)

    def _tell_progress(self, table: SlotTable, task_ids: NDArray[np.int64]) -> None:
        """Report the hits so far of those of these tasks that asked for it and go on."""
        for task_id in task_ids.tolist():
            search = self._tasks.reporting.get(task_id)
            if search is None:
                continue
            search.steps += 1
            rows = table.rows_of(task_id)
            is_over = not search.rows_waiting and not table.lists_left[rows].any()
            scanned = int(table.position[rows].sum())
            if is_over or not self._is_due(search, scanned):
                continue
            found = self._found(table, rows)
            if found is not None:
                progress = search.progress(table.task_rows[rows], found, scanned)
                if self._finality is not None and search.rows == 1:
                    assert progress.labels is not None, "partial hits without hits"
                    final = self._finality.look(task_id, scanned, progress.labels[0])
                    progress = progress._replace(probability=final)
                self._tasks.tell(progress)

    def _is_due(self, search: IvfSearch, scanned: int) -> bool:
        """Whether the hits so far are to be reported now."""
        if self._finality is None or search.rows > 1:
            return search.steps % search.report_every == 0
        kind = Kind(search.payload.topk, search.nprobe or 0, search.allowed is not None)
        return self._finality.is_due(search.task_id, kind, scanned)

    def _collect(self, table: SlotTable) -> None:
        """Take the hits of finished rows out and end the tasks that are complete."""
        rows = self._filled(table, table.finished())
        if not len(rows):
            return
        rows = rows[np.lexsort((table.task_rows[rows], table.task_ids[rows]))]
        found = self._found(table, rows)
        if found is None:
            return
        distances, labels = found
        self._sample(table, rows, distances)
        cached = np.zeros(len(rows), np.int64)
        if self._stops is not None:
            cached = self._stops.finish(table, rows, labels)
        task_ids, task_rows = table.task_ids[rows].tolist(), table.task_rows[rows]
        ended, first = [], 0
        while first < len(task_ids):  # one turn for each task, not for each row
            search = self._tasks.running[task_ids[first]]
            stop = bisect_right(task_ids, search.task_id, first)
            mine = slice(first, stop)
            search.finish_rows(task_rows[mine], (distances[mine], labels[mine]))
            search.counts.lists_on_device += int(table.on_device[rows[mine]].sum())
            search.counts.lists_scanned += int(table.position[rows[mine]].sum())
            search.counts.hits_cached += int(cached[mine].sum())
            if search.is_done:
                ended.append(search)
            first = stop
        table.remove(rows)
        for search in ended:
            self._finish(search)

    def _finish(self, search: IvfSearch) -> None:
        if self._finality is not None and search.rows == 1:
            self._finality.learn(search.task_id, search.hits().labels[0])
        self._tasks.finish(search)

    def _filled(self, table: SlotTable, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those rows that have all they are to find; the others go on with more lists."""
        if table.allowed is None:
            return rows if self._stops is None else self._ended(self._stops, table, rows)
        wanted = min(table.labels.shape[1], table.allowed.count)
        is_short = (table.labels[rows] >= 0).sum(axis=1) < wanted
        added = table.widen(rows[is_short])
        for task_id, lists in zip(table.task_ids[rows[is_short]].tolist(), added, strict=True):
            self._tasks.running[task_id].lists_added += int(lists)
        is_short[is_short] = added > 0
        filled: NDArray[np.int64] = rows[~is_short]
        return filled

    def _ended(
        self, stops: TargetStops, table: SlotTable, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return those rows that need no more lists; none where that fails, as do their tasks."""
        what = "deciding whether a search may stop failed"
        with self._tasks.failing(what, _tasks_of(table, rows)):
            return stops.ended(table, rows)
        return rows[:0]

    def _sample(
        self, table: SlotTable, rows: NDArray[np.int64], distances: NDArray[np.float32]
    ) -> None:
        """Have a share of the rows that scanned all their lists run again, [m] and [m, k]."""
        check = self._tasks.check
        if check is None or table.allowed is not None:
            return
        for number, row in enumerate(rows.tolist()):
            search = self._tasks.running[int(table.task_ids[row])]
            if not search.may_stop and check.wants():
                found = distances[number : number + 1, : search.payload.topk].copy()
                query = table.queries[row : row + 1].copy()
                check.add(Sample(query, found, 0, search.revision))

    def _found(self, table: SlotTable, rows: NDArray[np.int64]) -> SortedHits | None:
        """Return the hits of rows so far, [m, k], or None: then their tasks have failed."""
        with self._tasks.failing("reading the hits failed", _tasks_of(table, rows)):
            heaps = (table.distances[rows], table.labels[rows])
            found = self._corpus.scanner.hits(table.queries[rows], *heaps, table.k)
            return found if self._stops is None else self._stops.with_known(table, rows, found)
        return None


def _tasks_of(table: SlotTable, rows: NDArray[np.int64]) -> Callable[[], list[int]]:
    """Return what names the tasks of these rows."""
    return lambda: np.unique(table.task_ids[rows]).tolist()
