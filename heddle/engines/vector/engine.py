"""IVF search and ingestion, one sub-stage a step. (HedraRAG §4.2)"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.commands import Admit, Cancel, Command, Steer
from heddle.core.frames import Cancelled, Done, Event, Failed, Frame, Load
from heddle.core.payloads import IngestPayload, SearchPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Ingested
from heddle.core.tasks import Task
from heddle.costs.linear_fit import LinearFit
from heddle.engines.vector.scheduler import Rows, plan_substage, served_after
from heddle.engines.vector.search import (
    RunningSearch,
    WaitingIngest,
    ascending,
    dims_refusal,
    ingest_refusal,
    search_refusal,
)
from heddle.engines.vector.slots import SlotTable

INGEST_STEPS_MAX = 8  # an ingestion lets more urgent searches go first for so many steps
FIT_EVERY_STEP_UNTIL, FIT_EVERY = 64, 8
TABLES_KEPT = 4  # empty slot tables kept for the next search with the same k

PRIOR_S: Mapping[str, float] = MappingProxyType(
    {"call": 6e-5, "lists": 1.5e-6, "vectors": 1.2e-7, "rows": 1e-4, "stored": 1e-4}
)
"""Seconds for a step, a scanned list, a scanned vector, a row's coarse search, and a vector
stored: a 384-d index on one core, before anything is measured."""


class VectorWorker(Protocol):
    """What touches the index; the simulator's has a cost model instead.

    Shapes: queries [n, d] float32; lists [n, w] int64, -1 = scan nothing; distances [n, k]
    float32 and labels [n, k] int64 are running heaps, started at (inf, -1).
    """

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as the index is empty."""
        ...

    @property
    def list_sizes(self) -> NDArray[np.int64]:
        """Vectors in each inverted list, [nlist]; another array whenever they change."""
        ...

    @property
    def nprobe_default(self) -> int:
        """Clusters a query scans when it doesn't say."""
        ...

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        ...

    def coarse(self, queries: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
        """Return the nearest lists of each query, nearest first, [n, nprobe]."""
        ...

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> None:
        """Scan these lists; updates the heaps in place."""
        ...

    def store(self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> int:
        """Commit vectors and make them searchable; return the corpus revision."""
        ...


@dataclass(slots=True)
class StepCounts:
    """What one step did: the features of the cost model."""

    lists: int = 0
    vectors: int = 0
    rows: int = 0
    stored: int = 0

    def features(self) -> dict[str, float]:
        """Return the counts by the names that the cost model knows."""
        return {
            "call": 1.0,
            "lists": float(self.lists),
            "vectors": float(self.vectors),
            "rows": float(self.rows),
            "stored": float(self.stored),
        }


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
        self._name, self._epoch = name, epoch
        self._worker, self._clock = worker, clock
        self._slots = slots
        self._budget_s = substage_budget_s
        self._lists_per_step = lists_per_step
        self._fit = LinearFit(name, prior_s)
        self._costs = self._fit.snapshot()
        self._steps = 0
        self._sizes_seen: NDArray[np.int64] | None = None
        self._sizes_padded = np.zeros(1, np.int64)
        self._searches: dict[int, RunningSearch] = {}
        self._waiting: dict[int, RunningSearch] = {}  # those with rows that have no slot
        self._reporting: dict[int, RunningSearch] = {}  # those that asked for Progress
        self._ingests: dict[int, WaitingIngest] = {}
        self._tables: dict[int, SlotTable] = {}
        self._events: list[Event] = []

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._name

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION})

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return bool(self._events or self._searches or self._ingests)

    @property
    def rows_in_flight(self) -> int:
        """Queries that hold a slot."""
        return sum(table.count for table in self._tables.values())

    def apply(self, command: Command) -> None:
        """Take a command in; unknown tasks and what a vector index has no use for are ignored."""
        match command:
            case Admit(task=task, report_every=report_every):
                self._admit(task, report_every)
            case Cancel(task_id=task_id):
                if self._drop(task_id):
                    self._events.append(Cancelled(task_id))
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
        started_s = self._clock.now_s()
        counts = StepCounts()
        self._join(counts)
        self._scan(counts, self._budget_s if math.isinf(budget_s) else budget_s)
        self._ingest(counts)
        seconds = max(0.0, self._clock.now_s() - started_s)
        features = counts.features()
        if counts.lists or counts.rows or counts.stored:
            self._learn(features, seconds)
        events, self._events = tuple(self._events), []
        return Frame(
            self._name,
            self._epoch,
            seconds,
            events,
            features=features,
            load=Load(running=self.rows_in_flight, waiting=self._rows_waiting()),
            costs=self._costs,
            has_work=self.has_work,
        )

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by the cost model [s]."""
        sizes = self._worker.list_sizes
        lists = sum(int(table.lists_left.sum()) for table in self._tables.values())
        joining, free = 0, self._slots - self.rows_in_flight
        for search in self._waiting.values():
            rows = min(search.rows_waiting, free - joining)
            nprobe = search.payload.nprobe or self._worker.nprobe_default
            joining, lists = joining + rows, lists + rows * min(nprobe, len(sizes))
        vectors = lists * float(sizes.mean()) if len(sizes) else 0.0
        scans_s = self._costs.predict_s({"lists": lists, "vectors": vectors})
        stored = max((i.payload.rows for i in self._ingests.values()), default=0)
        fixed_s = self._costs.predict_s({"call": 1.0, "rows": joining, "stored": stored})
        return fixed_s + min(scans_s, max(self._budget_s, 0.0))

    def _learn(self, features: Mapping[str, float], seconds: float) -> None:
        """Fit the cost model; once it knows its lane, only now and then, as it costs time too."""
        self._steps += 1
        if self._steps <= FIT_EVERY_STEP_UNTIL or self._steps % FIT_EVERY == 0:
            self._fit.observe(features, seconds)
            self._costs = self._fit.snapshot()

    def _admit(self, task: Task, report_every: int) -> None:
        if task.task_id in self._searches or task.task_id in self._ingests:
            return
        priority = task.identity.priority
        payload = task.payload
        if isinstance(payload, SearchPayload):
            refusal = search_refusal(payload)
            if refusal is None:
                search = RunningSearch(task.task_id, payload, priority, report_every)
                self._searches[task.task_id] = self._waiting[task.task_id] = search
                if report_every > 0:
                    self._reporting[task.task_id] = search
        elif isinstance(payload, IngestPayload):
            refusal = ingest_refusal(payload)
            if refusal is None:
                self._ingests[task.task_id] = WaitingIngest(task.task_id, payload, priority)
        else:
            refusal = f"{self._name} carries out no {type(payload).__name__}"
        if refusal is not None:
            self._events.append(Failed(task.task_id, refusal, is_input=True))

    def _steer(self, command: Steer) -> None:
        if command.budget_s is not None:
            self._budget_s = command.budget_s
        if command.task_id is None or command.priority is None:
            return
        for tasks in (self._searches, self._ingests):
            if command.task_id in tasks:
                tasks[command.task_id].priority = command.priority
        for table in self._tables.values():
            table.priorities[table.rows_of(command.task_id)] = command.priority.value

    def _drop(self, task_id: int) -> bool:
        """Forget a task and free its rows; return whether it was there."""
        if self._ingests.pop(task_id, None) is not None:
            return True
        search = self._searches.get(task_id)
        if search is None:
            return False
        self._forget(search)
        table = self._tables.get(search.payload.topk)
        if table is not None:
            table.remove(table.rows_of(task_id))
        return True

    def _forget(self, search: RunningSearch) -> None:
        del self._searches[search.task_id]
        self._waiting.pop(search.task_id, None)
        self._reporting.pop(search.task_id, None)

    def _fail(self, task_id: int, message: str, *, is_input: bool = False) -> None:
        if self._drop(task_id):
            self._events.append(Failed(task_id, message, is_input))

    def _rows_waiting(self) -> int:
        searching = sum(search.rows_waiting for search in self._waiting.values())
        return searching + sum(ingest.payload.rows for ingest in self._ingests.values())

    def _join(self, counts: StepCounts) -> None:
        """Give free slots to waiting rows, urgent and early ones first."""
        if not self._waiting:
            return
        free = self._slots - self.rows_in_flight
        groups: dict[tuple[int, int], list[Joining]] = {}
        for search in sorted(self._waiting.values(), key=lambda search: search.priority.value):
            if not free:
                break
            if not self._start(search):
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

    def _start(self, search: RunningSearch) -> bool:
        """Settle a search's nprobe; return whether there is anything to scan for it."""
        refusal = dims_refusal(search.payload.queries.shape[1], self._worker.dims)
        if refusal is not None:
            self._fail(search.task_id, refusal, is_input=True)
            return False
        if search.nprobe is None:
            nprobe = search.payload.nprobe or self._worker.nprobe_default
            search.nprobe = min(nprobe, len(self._worker.list_sizes))
            search.revision = self._worker.revision
        if search.nprobe and search.payload.rows:
            return True
        self._forget(search)
        self._events.append(Done(search.task_id, search.hits()))
        return False

    def _join_group(self, topk: int, nprobe: int, group: Sequence[Joining]) -> None:
        """Find the clusters of rows with equal k and nprobe in one coarse search."""
        queries = np.concatenate([joining.queries for joining in group], dtype=np.float32)
        try:
            lists = self._worker.coarse(queries, nprobe)
        except Exception as error:
            for joining in group:
                self._fail(joining.search.task_id, f"coarse search failed: {error}")
            return
        rows = [joining.stop - joining.first for joining in group]
        self._table(topk, queries.shape[1]).add(
            np.repeat([joining.search.task_id for joining in group], rows),
            np.array([row for joining in group for row in range(joining.first, joining.stop)]),
            np.repeat([joining.search.priority.value for joining in group], rows),
            queries,
            lists,
        )

    def _table(self, k: int, dims: int) -> SlotTable:
        if k not in self._tables:
            idle = [k for k, table in self._tables.items() if not table.count]
            for old in idle[: max(0, len(idle) - TABLES_KEPT + 1)]:
                del self._tables[old]
            self._tables[k] = SlotTable(k, dims)
        return self._tables[k]

    def _scan(self, counts: StepCounts, budget_s: float) -> None:
        """Run one sub-stage over every row in flight."""
        tables = [table for table in self._tables.values() if table.count]
        if not tables:
            return
        fixed = self._costs.coefficients_s
        left_s = budget_s - fixed["call"] - fixed["rows"] * counts.rows
        shares = self._plan(tables, left_s)
        for table, share in zip(tables, shares, strict=True):
            self._scan_table(table, share, counts)
        for table in tables:
            self._collect(table)

    def _plan(self, tables: Sequence[SlotTable], budget_s: float) -> list[NDArray[np.int64]]:
        """Return how many clusters each row of each table scans now.

        Mutates: the tables' served_at.
        """
        rows = Rows(
            lists_left=_joined(tables, lambda table: table.lists_left),
            priorities=_joined(tables, lambda table: table.priorities[: table.count]),
            served_at=_joined(tables, lambda table: table.served_at[: table.count]),
        )
        planned = plan_substage(
            rows,
            lambda first, stop: _joined(tables, lambda table: table.upcoming(first, stop)),
            self._price,
            budget_s,
            self._lists_per_step,
        )
        served_at = served_after(planned, rows.served_at)
        shares, first = [], 0
        for table in tables:
            mine = slice(first, first + table.count)
            table.served_at[: table.count] = served_at[mine]
            shares.append(planned[mine])
            first += table.count
        return shares

    def _price(self, lists: NDArray[np.int64]) -> NDArray[np.float64]:
        costs = self._costs.coefficients_s
        vectors = self._sizes().take(lists, mode="wrap").astype(np.float64)
        return vectors * costs["vectors"] + costs["lists"]

    def _sizes(self) -> NDArray[np.int64]:
        """Return the lists' sizes with a last entry 0, which is what NO_LIST wraps around to."""
        sizes = self._worker.list_sizes
        if sizes is not self._sizes_seen:
            self._sizes_seen, self._sizes_padded = sizes, np.append(sizes, 0)
        return self._sizes_padded

    def _scan_table(self, table: SlotTable, share: NDArray[np.int64], counts: StepCounts) -> None:
        lists = table.take(share)
        if not lists.size:
            return
        n = table.count
        try:
            self._worker.scan(table.queries[:n], lists, table.distances[:n], table.labels[:n])
        except Exception as error:
            # The heaps may be half updated, so no search of this call can go on.
            for task_id in np.unique(table.task_ids[:n]).tolist():
                self._fail(task_id, f"scan failed: {error}")
            return
        counts.lists += int(share.sum())
        counts.vectors += int(self._sizes().take(lists, mode="wrap").sum())
        if self._reporting:
            self._report(table, np.unique(table.task_ids[:n][share > 0]))

    def _report(self, table: SlotTable, task_ids: NDArray[np.int64]) -> None:
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
            progress = search.progress(
                table.task_rows[rows],
                ascending(table.distances[rows], table.labels[rows]),
                int(table.position[rows].sum()),
            )
            self._events.append(progress)

    def _collect(self, table: SlotTable) -> None:
        """Take the hits of finished rows out and end the tasks that are complete."""
        rows = table.finished()
        if not len(rows):
            return
        rows = rows[np.lexsort((table.task_rows[rows], table.task_ids[rows]))]
        distances, labels = ascending(table.distances[rows], table.labels[rows])
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
            self._forget(search)
            self._events.append(Done(search.task_id, search.hits()))

    def _ingest(self, counts: StepCounts) -> None:
        """Store one waiting ingestion, unless more urgent searches are in flight."""
        if not self._ingests:
            return
        ingest = min(self._ingests.values(), key=lambda ingest: ingest.priority.value)
        urgent = any(s.priority.value < ingest.priority.value for s in self._searches.values())
        ingest.steps_waited += 1
        if urgent and ingest.steps_waited <= INGEST_STEPS_MAX:
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
        del self._ingests[ingest.task_id]
        self._events.append(Done(ingest.task_id, Ingested(payload.rows, revision)))


def _joined(
    tables: Sequence[SlotTable], column: Callable[[SlotTable], NDArray[np.int64]]
) -> NDArray[np.int64]:
    if len(tables) == 1:
        return column(tables[0])
    return np.concatenate([column(table) for table in tables])
