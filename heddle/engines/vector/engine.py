"""IVF search and ingestion, one sub-stage a step. (HedraRAG §4.2)"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.core.commands import Admit, Cancel, Command, Steer
from heddle.core.frames import Frame, Load
from heddle.core.payloads import IngestPayload, SearchPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Ingested
from heddle.core.tasks import Task
from heddle.costs.step_report import StepReport
from heddle.engines.vector.ingest_queue import IngestQueue, WaitingIngest, ingest_refusal
from heddle.engines.vector.scheduler import NO_LIST
from heddle.engines.vector.search import RunningSearch, SortedHits, dims_refusal, search_refusal
from heddle.engines.vector.slot_tables import SlotTables
from heddle.engines.vector.slots import SlotTable
from heddle.engines.vector.step_counts import PRIOR_S, StepCounts
from heddle.engines.vector.worker_port import VectorWorker


@dataclass(frozen=True, slots=True, eq=False)
class Joining:
    """Rows [first, stop) of a search that get a slot now."""

    search: RunningSearch
    first: int
    stop: int

    @property
    def queries(self) -> NDArray[np.float32]:
        """The rows' queries, [stop - first, d]."""
        return self.search.payload.queries[self.first : self.stop]


class VectorEngine:
    """Searches in flight over one index, advanced together by a sub-stage each step.

    A search sees all that was committed to the corpus before it came, by whichever process: the
    index follows the corpus first. What was deleted leaves it only between searches, so each
    search has one state of the corpus under it from its first cluster to its last.

    Args:
        name: the lane's name.
        epoch: the lane's epoch.
        worker: touches the index.
        clock: measures steps.
        slots: queries in flight at most; more wait.
        substage_budget_s: time for one step where the caller doesn't say [s].
        lists_per_step: the most clusters one query scans in a step; None leaves it to the budget.
        prior_s: the cost model's first guess.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        worker: VectorWorker,
        clock: Clock,
        *,
        slots: int = 64,
        substage_budget_s: float = 2e-3,
        lists_per_step: int | None = None,
        prior_s: Mapping[str, float] = PRIOR_S,
    ) -> None:
        self._worker = worker
        self._slots = slots
        self._budget_s = substage_budget_s
        self._lists_per_step = lists_per_step
        self._report = StepReport(name, epoch, clock, prior_s)
        self._searches: dict[int, RunningSearch] = {}
        self._waiting: dict[int, RunningSearch] = {}  # those with rows that have no slot
        self._reporting: dict[int, RunningSearch] = {}  # those that asked for Progress
        self._has_new_search = False  # it has to see what is committed by now
        self._revision_wanted = 0
        self._ingests = IngestQueue()
        self._tables = SlotTables()

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._report.lane

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION})

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._report.has_events or self._has_tasks

    @property
    def rows_in_flight(self) -> int:
        """Queries that hold a slot."""
        return self._tables.count

    def apply(self, command: Command) -> None:
        """Take a command in; unknown tasks and what a vector index has no use for are ignored."""
        match command:
            case Admit(task=task, report_every=report_every):
                self._admit(task, report_every)
            case Cancel(task_id=task_id):
                if self._drop(task_id):
                    self._report.cancelled(task_id)
            case Steer():
                self._steer(command)
            case _:
                pass

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Scan as many clusters as fit the budget over all searches, or store vectors.

        Args:
            now_s: the lane's time [s]; unused, as budgets are relative.
            budget_s: time to work for [s]; inf = the engine's own sub-stage budget.
        """
        self._report.begin()
        counts = StepCounts()
        self._join(counts)
        self._scan(counts, self._budget_s if math.isinf(budget_s) else budget_s)
        self._ingest(counts)
        return self._report.frame(
            counts.features(),
            Load(running=self.rows_in_flight, waiting=self._rows_waiting()),
            has_computed=counts.has_any,
            has_work=self._has_tasks,
        )

    def close(self) -> None:
        """Let go of the corpus; nothing is called afterwards."""
        self._worker.close()

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by the cost model [s]."""
        costs = self._report.costs
        sizes = self._worker.list_sizes
        lists = self._tables.lists_left
        joining, free = 0, self._slots - self.rows_in_flight
        for search in self._waiting.values():
            rows = min(search.rows_waiting, free - joining)
            nprobe = search.payload.nprobe or self._worker.nprobe_default
            joining, lists = joining + rows, lists + rows * min(nprobe, len(sizes))
        vectors = lists * float(sizes.mean()) if len(sizes) else 0.0
        rows = self.rows_in_flight + joining
        scans_s = costs.predict_s({"lists": lists, "vectors": vectors, "scans": rows})
        stored = self._ingests.rows_of_largest
        fixed_s = costs.predict_s({"call": 1.0, "rows": joining, "stored": stored})
        return fixed_s + min(scans_s, max(self._budget_s, 0.0))

    # Tasks ------------------------------------------------------------------------------------

    @property
    def _has_tasks(self) -> bool:
        return bool(self._searches or self._ingests)

    def _rows_waiting(self) -> int:
        return sum(s.rows_waiting for s in self._waiting.values()) + self._ingests.rows

    def _admit(self, task: Task, report_every: int) -> None:
        task_id, priority, payload = task.task_id, task.identity.priority, task.payload
        if task_id in self._searches or task_id in self._ingests:
            return
        if isinstance(payload, SearchPayload):
            refusal = search_refusal(payload)
            if refusal is None:
                self._add(RunningSearch(task_id, payload, priority, report_every))
        elif isinstance(payload, IngestPayload):
            refusal = ingest_refusal(payload)
            if refusal is None:
                self._ingests.add(WaitingIngest(task_id, payload, priority))
        else:
            refusal = f"{self.name} carries out no {type(payload).__name__}"
        if refusal is not None:
            self._report.failed(task_id, refusal, is_input=True)

    def _add(self, search: RunningSearch) -> None:
        self._searches[search.task_id] = self._waiting[search.task_id] = search
        self._has_new_search = True
        if search.report_every > 0:
            self._reporting[search.task_id] = search

    def _steer(self, command: Steer) -> None:
        if command.budget_s is not None:
            self._budget_s = command.budget_s
        if command.task_id is None or command.priority is None:
            return
        if command.task_id in self._searches:
            self._searches[command.task_id].priority = command.priority
            self._tables.prioritise(command.task_id, command.priority)
        self._ingests.prioritise(command.task_id, command.priority)

    def _drop(self, task_id: int) -> bool:
        """Forget a task and free its rows; return whether it was there."""
        search = self._searches.get(task_id)
        if search is None:
            return self._ingests.remove(task_id)
        self._forget(search)
        self._tables.remove(task_id)
        return True

    def _forget(self, search: RunningSearch) -> None:
        del self._searches[search.task_id]
        self._waiting.pop(search.task_id, None)
        self._reporting.pop(search.task_id, None)

    def _fail(self, task_id: int, message: str, *, is_input: bool = False) -> None:
        if self._drop(task_id):
            self._report.failed(task_id, message, is_input=is_input)

    def _finish(self, search: RunningSearch) -> None:
        self._forget(search)
        self._report.done(search.task_id, search.hits())

    # Searches begin ---------------------------------------------------------------------------

    def _join(self, counts: StepCounts) -> None:
        """Give free slots to waiting rows, urgent and early ones first."""
        if not self._waiting:
            return
        may_begin = self._follow(counts)
        free = self._slots - self.rows_in_flight
        groups: dict[tuple[int, int], list[Joining]] = {}
        for search in sorted(self._waiting.values(), key=lambda search: search.priority.value):
            if not free:
                break
            if not search.has_begun and not (may_begin and self._begin(search)):
                continue
            rows = min(free, search.rows_waiting)
            group = groups.setdefault((search.payload.topk, search.nprobe or 0), [])
            group.append(Joining(search, search.rows_joined, search.rows_joined + rows))
            search.rows_joined += rows
            free -= rows
            counts.rows += rows
            if not search.rows_waiting:
                del self._waiting[search.task_id]
        for (topk, nprobe), group in groups.items():
            self._join_group(topk, nprobe, group)

    def _follow(self, counts: StepCounts) -> bool:
        """Bring the index up to the corpus; return whether waiting searches may begin on it."""
        try:
            if self._has_new_search:
                self._revision_wanted = self._worker.newest_revision()
                self._has_new_search = False
            if not self._worker.covers(self._revision_wanted):
                in_flight = any(search.has_begun for search in self._searches.values())
                counts.followed += self._worker.follow(in_flight=in_flight)
            return self._worker.covers(self._revision_wanted)
        except Exception as error:
            for search in [s for s in self._waiting.values() if not s.has_begun]:
                self._fail(search.task_id, f"the index can't follow the corpus: {error}")
            return False

    def _begin(self, search: RunningSearch) -> bool:
        """Settle a search's revision and nprobe; return whether there is anything to scan."""
        refusal = dims_refusal(search.payload.queries.shape[1], self._worker.dims)
        if refusal is not None:
            self._fail(search.task_id, refusal, is_input=True)
            return False
        nprobe = search.payload.nprobe or self._worker.nprobe_default
        search.nprobe = min(nprobe, len(self._worker.list_sizes))
        search.revision = self._worker.revision
        if search.nprobe and search.payload.rows:
            return True
        self._finish(search)
        return False

    def _join_group(self, topk: int, nprobe: int, group: Sequence[Joining]) -> None:
        """Find the clusters of rows with equal k and nprobe in one coarse search."""
        queries = np.concatenate([joining.queries for joining in group], dtype=np.float32)
        try:
            queries = self._worker.prepared(queries)
            lists = self._worker.coarse(queries, nprobe)
        except Exception as error:
            for joining in group:
                self._fail(joining.search.task_id, f"coarse search failed: {error}")
            return
        rows = [joining.stop - joining.first for joining in group]
        self._tables.table(topk, self._worker.heap_size(topk), queries.shape[1]).add(
            np.repeat([joining.search.task_id for joining in group], rows),
            np.array([row for joining in group for row in range(joining.first, joining.stop)]),
            np.repeat([joining.search.priority.value for joining in group], rows),
            queries,
            lists,
        )

    # One sub-stage ----------------------------------------------------------------------------

    def _scan(self, counts: StepCounts, budget_s: float) -> None:
        """Run one sub-stage over every row in flight."""
        if not self.rows_in_flight:
            return
        costs = self._report.costs.coefficients_s
        left_s = budget_s - costs["call"] - costs["rows"] * counts.rows
        shares = self._tables.plan(self._price, left_s, self._lists_per_step)
        for table, share in shares:
            self._scan_table(table, share, counts)
        for table, _ in shares:
            self._collect(table)

    def _price(self, lists: NDArray[np.int64]) -> NDArray[np.float64]:
        costs = self._report.costs.coefficients_s
        prices_s = self._sizes(lists).astype(np.float64) * costs["vectors"] + costs["lists"]
        prices_s[:, 0] += costs["scans"]  # once a row
        return prices_s

    def _sizes(self, lists: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many vectors each list holds; anything for NO_LIST."""
        return self._worker.list_sizes.take(lists, mode="wrap")

    def _scan_table(self, table: SlotTable, share: NDArray[np.int64], counts: StepCounts) -> None:
        rows, lists = table.take(share)
        if not len(rows):
            return
        queries, distances, labels = table.queries[rows], table.distances[rows], table.labels[rows]
        try:
            self._worker.scan(queries, lists, distances, labels)
        except Exception as error:
            for task_id in np.unique(table.task_ids[rows]).tolist():
                self._fail(task_id, f"scan failed: {error}")
            return
        table.distances[rows], table.labels[rows] = distances, labels
        counts.lists += int(share.sum())
        counts.scans += len(rows)
        counts.vectors += int(self._sizes(lists).sum(where=lists != NO_LIST))
        if self._reporting:
            self._tell_progress(table, np.unique(table.task_ids[rows]))

    def _tell_progress(self, table: SlotTable, task_ids: NDArray[np.int64]) -> None:
        """Tell the hits so far of those of these tasks that asked for it and go on."""
        for task_id in task_ids.tolist():
            search = self._reporting.get(task_id)
            if search is None:
                continue
            search.steps += 1
            rows = table.rows_of(task_id)
            is_over = not search.rows_waiting and not table.lists_left[rows].any()
            if is_over or search.steps % search.report_every:
                continue
            found = self._found(table, rows)
            if found is not None:
                scanned = int(table.position[rows].sum())
                self._report.tell(search.progress(table.task_rows[rows], found, scanned))

    def _collect(self, table: SlotTable) -> None:
        """Take the hits of finished rows out and end the tasks that are complete."""
        rows = table.finished()
        if not len(rows):
            return
        rows = rows[np.lexsort((table.task_rows[rows], table.task_ids[rows]))]
        found = self._found(table, rows)
        if found is None:
            return
        distances, labels = found
        task_ids, task_rows = table.task_ids[rows].tolist(), table.task_rows[rows]
        ended, first = [], 0
        while first < len(task_ids):  # one turn for each task, not for each row
            search = self._searches[task_ids[first]]
            stop = bisect_right(task_ids, search.task_id, first)
            mine = slice(first, stop)
            search.finish_rows(task_rows[mine], (distances[mine], labels[mine]))
            if search.is_done:
                ended.append(search)
            first = stop
        table.remove(rows)
        for search in ended:
            self._finish(search)

    def _found(self, table: SlotTable, rows: NDArray[np.int64]) -> SortedHits | None:
        """Return the hits that rows have by now, [m, k], or None: then their tasks have failed."""
        heaps = (table.distances[rows], table.labels[rows])
        try:
            return self._worker.hits(table.queries[rows], *heaps, table.k)
        except Exception as error:
            for task_id in np.unique(table.task_ids[rows]).tolist():
                self._fail(task_id, f"reading the hits failed: {error}")
            return None

    def _ingest(self, counts: StepCounts) -> None:
        """Store one waiting ingestion, unless more urgent searches are in flight."""
        ingest = self._ingests.next(search.priority for search in self._searches.values())
        if ingest is None:
            return
        payload = ingest.payload
        refusal = dims_refusal(payload.vectors.shape[1], self._worker.dims)
        if refusal is not None:
            self._fail(ingest.task_id, refusal, is_input=True)
            return
        try:
            revision = self._worker.store(payload.chunk_ids, payload.vectors)
        except Exception as error:
            self._fail(ingest.task_id, f"storing vectors failed: {error}")
            return
        counts.stored += payload.rows
        self._ingests.remove(ingest.task_id)
        self._report.done(ingest.task_id, Ingested(payload.rows, revision))
