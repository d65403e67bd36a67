"""IVF search and ingestion, one sub-stage a step. (HedraRAG §4.2)"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from heddle.core.commands import Admit, Cancel, Command, Steer
from heddle.core.errors import InputError
from heddle.core.frames import Frame, Load
from heddle.core.gauges import INDEX_REVISION, INDEX_VECTORS
from heddle.core.payloads import IngestPayload, SearchPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits, Ingested, RecallEstimate
from heddle.core.tasks import Optimizations, Task
from heddle.costs.step_report import StepReport
from heddle.engines.vector.corpus.allowed import FEW_MAX, Allowed
from heddle.engines.vector.corpus.ingest_queue import IngestQueue, WaitingIngest, ingest_refusal
from heddle.engines.vector.corpus.word_searches import only_words_lack
from heddle.engines.vector.ivf.early_stop.course import Start
from heddle.engines.vector.ivf.early_stop.course_table import NO_COURSE
from heddle.engines.vector.ivf.early_stop.finality import Finality, Kind
from heddle.engines.vector.ivf.early_stop.target_stops import TargetStops
from heddle.engines.vector.ivf.scheduler import NO_LIST, due_after
from heddle.engines.vector.ivf.slot_tables import Portion, SlotTables
from heddle.engines.vector.ivf.slots import SlotTable
from heddle.engines.vector.ivf.step_counts import PRIOR_S, StepCounts
from heddle.engines.vector.ivf.worker_port import VectorWorker
from heddle.engines.vector.recall.self_check import Sample, SelfCheck
from heddle.engines.vector.search import RunningSearch, SortedHits, dims_refusal, search_refusal

TOPM_UNUSED = "topm: this corpus is searched by its clusters; a graph keeps candidates"
FILTERED_IN_FULL = "target recall: a search with a filter scans every planned list"


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

    def starts(self) -> Iterator[Start]:
        """Return each row as one that may stop early."""
        search = self.search
        start = Start(search.task_id, search.request_id, search.payload.topk, search.revision)
        return repeat(start, self.stop - self.first)


@dataclass(frozen=True, slots=True)
class Group:
    """What rows that join together have in common; `may_stop`: before their last cluster."""

    k: int
    nprobe: int
    allowed: Allowed | None
    may_stop: bool


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
        check: runs a share of the searches again, exactly; None = none.
        stops: ends searches whose request allows approximate answers at a promised recall; None =
            each scans all its clusters.
        finality: tells how likely partial hits are the final ones; None = nothing does, and they
            are told after every so many steps.
        notes: what every search is told: where it goes another way than asked.
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
        check: SelfCheck | None = None,
        stops: TargetStops | None = None,
        finality: Finality | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._worker, self._own_notes = worker, notes
        self._check, self._stops, self._finality = check, stops, finality
        self._slots = slots
        self._budget_s = substage_budget_s
        self._lists_per_step = lists_per_step
        self._report = StepReport(name, epoch, clock, prior_s)
        self._searches: dict[int, RunningSearch] = {}
        self._waiting: dict[int, RunningSearch] = {}  # those with rows that have no slot
        self._reporting: dict[int, RunningSearch] = {}  # those that asked for Progress
        self._lacking_words: dict[int, Hits] = {}  # those that lack nothing but `by_words`
        self._has_new_search = False  # it has to see what is committed by now
        self._revision_wanted = 0
        self._ingests = IngestQueue()
        self._tables = SlotTables()
        self._vectors_scanned = 0

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
        return self._report.has_events or self._goes_on

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
        self._take_words()
        self._join(counts)
        self._scan(counts, self._budget_s if math.isinf(budget_s) else budget_s)
        self._ingest(counts)
        self._run_again(counts)
        frame = self._report.frame(
            counts.features(),
            Load(running=self.rows_in_flight, waiting=self._rows_waiting()),
            has_computed=counts.has_any,
            has_work=self._goes_on,
        )
        gauges = {
            INDEX_REVISION: self._worker.revision,
            INDEX_VECTORS: int(self._worker.list_sizes.sum()),
        }
        return frame._replace(recall=self._recall, notes=self._notes, gauges=gauges)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a search by words has ended beside the steps."""
        self._worker.words.subscribe(wake)

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

    def work(self, payload: SearchPayload) -> float:
        """Return how many clusters a search scans over all its queries, at least 1."""
        nprobe = payload.nprobe or self._worker.nprobe_default
        return max(1, payload.rows * min(nprobe, len(self._worker.list_sizes)))

    # Tasks ------------------------------------------------------------------------------------

    @property
    def _goes_on(self) -> bool:
        return self._has_tasks or (self._check is not None and self._check.has_work)

    @property
    def _has_tasks(self) -> bool:
        return bool(self._searches or self._ingests or self._worker.words.has_results)

    def _rows_waiting(self) -> int:
        return sum(s.rows_waiting for s in self._waiting.values()) + self._ingests.rows

    def _admit(self, task: Task, report_every: int) -> None:
        task_id, priority, payload = task.task_id, task.identity.priority, task.payload
        if any(task_id in tasks for tasks in (self._searches, self._lacking_words, self._ingests)):
            return
        if isinstance(payload, SearchPayload):
            refusal = search_refusal(payload)
            if refusal is None:
                is_approx = task.optimizations is Optimizations.APPROX
                may_stop = self._stops is not None and is_approx
                request_id = task.identity.request_id
                self._add(
                    RunningSearch(task_id, payload, priority, report_every, request_id, may_stop)
                )
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
        self._worker.words.cancel(task_id)
        if self._lacking_words.pop(task_id, None) is not None:
            return True
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
        if self._stops is not None:
            self._stops.forget(search.task_id)
        if self._finality is not None:
            self._finality.forget(search.task_id)

    def _fail(self, task_id: int, message: str, *, is_input: bool = False) -> None:
        if self._drop(task_id):
            self._report.failed(task_id, message, is_input=is_input)

    def _finish(self, search: RunningSearch) -> None:
        notes = (*self._notes, *search.notes)
        hits = replace(search.hits(), notes=notes, by_words=search.by_words, recall=self._recall)
        if self._finality is not None and len(hits.labels) == 1:
            self._finality.learn(search.task_id, hits.labels[0])
        self._forget(search)
        if search.payload.words is None or search.by_words is not None:
            self._report.done(search.task_id, hits)
        else:
            self._lacking_words[search.task_id] = hits
            self._report.tell(only_words_lack(search.task_id))

    def _take_words(self) -> None:
        """Take in what searches by words have found, and end the tasks that lacked only that."""
        for task_id, found in self._worker.words.take():
            if isinstance(found, Exception):
                self._fail(task_id, f"the search by words failed: {found}")
            elif task_id in self._lacking_words:
                hits = self._lacking_words.pop(task_id)
                self._report.done(task_id, replace(hits, by_words=found))
            else:
                self._searches[task_id].by_words = found

    # Searches begin ---------------------------------------------------------------------------

    def _join(self, counts: StepCounts) -> None:
        """Give free slots to waiting rows, urgent and early ones first."""
        if not self._waiting:
            return
        may_begin = self._follow(counts)
        free = self._slots - self.rows_in_flight
        groups: dict[Group, list[Joining]] = {}
        for search in sorted(self._waiting.values(), key=lambda search: search.priority.value):
            if not free:
                break
            if not search.has_begun and not (may_begin and self._begin(search)):
                continue
            rows = min(free, search.rows_waiting)
            if search.allowed is not None and search.allowed.is_few:
                self._compare(search, rows, counts)
                continue
            group = groups.setdefault(self._group(search), [])
            group.append(Joining(search, search.rows_joined, search.rows_joined + rows))
            search.rows_joined += rows
            free -= rows
            counts.rows += rows
            if not search.rows_waiting:
                del self._waiting[search.task_id]
        for common, group in groups.items():
            self._join_group(common, group, counts)

    def _group(self, search: RunningSearch) -> Group:
        topk, nprobe = search.payload.topk, search.nprobe or 0
        if self._stops is None or not search.may_stop or search.allowed is not None:
            return Group(topk, nprobe, search.allowed, may_stop=False)
        search.note(self._stops.why_full(topk, nprobe))
        return Group(self._stops.hits_kept(topk), nprobe, None, may_stop=True)

    def _follow(self, counts: StepCounts) -> bool:
        """Bring the index up to the corpus; return whether waiting searches may begin on it."""
        try:
            if self._has_new_search:
                self._revision_wanted = self._worker.newest_revision()
                self._has_new_search = False
            if not self._worker.covers(self._revision_wanted):
                if self._check is not None:
                    self._check.index_changes()
                begun = [search for search in self._searches.values() if search.has_begun]
                unlimited = {s.payload.scope for s in begun if s.allowed is None}
                changes = self._worker.follow(in_flight=bool(begun), unlimited=unlimited)
                counts.followed += changes
            return self._worker.covers(self._revision_wanted)
        except Exception as error:
            for search in [s for s in self._waiting.values() if not s.has_begun]:
                self._fail(search.task_id, f"the index can't follow the corpus: {error}")
            return False

    def _begin(self, search: RunningSearch) -> bool:
        """Settle a search's revision, nprobe and filter; return whether there is a list to scan."""
        refusal = dims_refusal(search.payload.queries.shape[1], self._worker.dims)
        if refusal is not None:
            self._fail(search.task_id, refusal, is_input=True)
            return False
        nprobe = search.payload.nprobe or self._worker.nprobe_default
        search.nprobe = min(nprobe, len(self._worker.list_sizes))
        search.revision = self._worker.revision
        search.note(TOPM_UNUSED if search.payload.topm is not None else "")
        if search.payload.words is not None:
            self._worker.words.start(search.task_id, search.payload)
        if not (search.nprobe and search.payload.rows):
            self._finish(search)
            return False
        return self._narrow(search)

    def _narrow(self, search: RunningSearch) -> bool:
        """Settle what a search may find; return whether there is any."""
        try:
            allowed = search.allowed = self._worker.allowed(search.payload.scope)
        except InputError as error:
            self._fail(search.task_id, str(error), is_input=True)
            return False
        except Exception as error:
            self._fail(search.task_id, f"what the search may find is unknown: {error}")
            return False
        if allowed is None:
            return True
        if search.may_stop:
            search.note(FILTERED_IN_FULL)
        if allowed.is_few or not allowed.count:
            search.nprobe = 0  # no list is scanned
        if not allowed.count:
            self._finish(search)
        return allowed.count > 0

    def _compare(self, search: RunningSearch, rows: int, counts: StepCounts) -> None:
        """Compare some rows of a search with all of the few vectors that it may find."""
        allowed = search.allowed
        assert allowed is not None, "nothing tells which few"
        rows = min(rows, (FEW_MAX - counts.compared) // allowed.count)
        if not rows:
            return
        joining = Joining(search, search.rows_joined, search.rows_joined + rows)
        try:
            found = self._worker.nearest_of(joining.queries, allowed, search.payload.topk)
        except Exception as error:
            self._fail(search.task_id, f"comparing with what the filter lets pass failed: {error}")
            return
        counts.rows += rows
        counts.compared += rows * allowed.count
        search.rows_joined += rows
        search.finish_rows(np.arange(joining.first, joining.stop), found)
        if search.is_done:
            self._finish(search)

    def _join_group(self, common: Group, group: Sequence[Joining], counts: StepCounts) -> None:
        """Find the clusters of rows with equal k and nprobe in one coarse search."""
        nprobe, allowed = common.nprobe, common.allowed
        queries = np.concatenate([joining.queries for joining in group], dtype=np.float32)
        try:
            queries = self._worker.prepared(queries)
            # A filter may want more lists than nprobe: they are ordered at once.
            width = nprobe if allowed is None else len(self._worker.list_sizes)
            lists = self._worker.coarse(queries, width)
            stop: int | NDArray[np.int64] = nprobe
            courses: int | NDArray[np.int64] = NO_COURSE
            own = self._sizes(lists[:, :nprobe]).sum(axis=1)
            if common.may_stop and self._stops is not None:
                starts = [start for joining in group for start in joining.starts()]
                lists, stop, courses, compared = self._stops.begin(starts, queries, lists)
                counts.compared += compared
        except Exception as error:
            for joining in group:
                self._fail(joining.search.task_id, f"coarse search failed: {error}")
            return
        rows = [joining.stop - joining.first for joining in group]
        heap = self._worker.heap_size(common.k)
        shared_lists = len(self._worker.list_sizes) if self._shares_lists else 0
        self._tables.table(common.k, heap, queries.shape[1], allowed, shared_lists).add(
            np.repeat([joining.search.task_id for joining in group], rows),
            np.array([row for joining in group for row in range(joining.first, joining.stop)]),
            np.repeat([joining.search.priority.value for joining in group], rows),
            queries,
            lists,
            due_after(self._vectors_scanned, own),
            stop,
            courses,
        )

    # One sub-stage ----------------------------------------------------------------------------

    def _scan(self, counts: StepCounts, budget_s: float) -> None:
        """Run one sub-stage over every row in flight."""
        if not self.rows_in_flight:
            return
        costs = self._report.costs.coefficients_s
        left_s = budget_s - costs["call"] - costs["rows"] * counts.rows
        if self._shares_lists:
            left_s -= costs["scans"] * self.rows_in_flight
            portions = self._tables.take_shared(self._shared_prices, left_s)
        else:
            portions = self._tables.take(self._price, left_s, self._lists_per_step)
        for portion in portions:
            self._scan_portion(portion, counts)
        for portion in portions:
            self._collect(portion.table)

    @property
    def _shares_lists(self) -> bool:
        """Whether rows share the scan of a list, in whatever order that needs."""
        return self._worker.shares_lists and self._lists_per_step is None

    def _price(self, lists: NDArray[np.int64]) -> NDArray[np.float64]:
        costs = self._report.costs.coefficients_s
        prices_s = self._sizes(lists).astype(np.float64) * costs["vectors"] + costs["lists"]
        prices_s[:, 0] += costs["scans"]  # once a row
        return prices_s

    def _shared_prices(self, wanting: NDArray[np.int64]) -> NDArray[np.float64]:
        costs = self._report.costs.coefficients_s
        vector_s = costs["vectors"] + costs["ridden"] * (wanting - 1)
        return self._worker.list_sizes * vector_s + costs["lists"]

    def _sizes(self, lists: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many vectors each list holds; anything for NO_LIST."""
        return self._worker.list_sizes.take(lists, mode="wrap")

    def _scan_portion(self, portion: Portion, counts: StepCounts) -> None:
        table, rows, lists = portion.table, portion.rows, portion.lists
        queries, distances, labels = table.queries[rows], table.distances[rows], table.labels[rows]
        try:
            on_device = self._worker.scan(queries, lists, distances, labels, table.allowed)
        except Exception as error:
            for task_id in np.unique(table.task_ids[rows]).tolist():
                self._fail(task_id, f"scan failed: {error}")
            return
        table.distances[rows], table.labels[rows] = distances, labels
        if on_device is not None:
            table.on_device[rows] += on_device
        self._count(lists, counts)
        if self._reporting:
            self._tell_progress(table, np.unique(table.task_ids[rows]))

    def _count(self, lists: NDArray[np.int64], counts: StepCounts) -> None:
        """Count what a scan of lists [m, w] took: those that rows share are read once."""
        scanned = lists[lists != NO_LIST]
        compared = int(self._sizes(scanned).sum())
        read = lists.max(axis=0) if self._shares_lists else scanned
        vectors = int(self._sizes(read).sum())
        counts.lists += len(read)
        counts.vectors += vectors
        counts.ridden += compared - vectors
        counts.scans += len(lists)
        self._vectors_scanned += vectors

    def _tell_progress(self, table: SlotTable, task_ids: NDArray[np.int64]) -> None:
        """Tell the hits so far of those of these tasks that asked for it and go on."""
        for task_id in task_ids.tolist():
            search = self._reporting.get(task_id)
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
                if self._finality is not None and search.payload.rows == 1:
                    assert progress.labels is not None, "partial hits without hits"
                    final = self._finality.look(task_id, scanned, progress.labels[0])
                    progress = progress._replace(probability=final)
                self._report.tell(progress)

    def _is_due(self, search: RunningSearch, scanned: int) -> bool:
        """Whether the hits so far are to be told now."""
        if self._finality is None or search.payload.rows > 1:
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
            search = self._searches[task_ids[first]]
            stop = bisect_right(task_ids, search.task_id, first)
            mine = slice(first, stop)
            search.finish_rows(task_rows[mine], (distances[mine], labels[mine]))
            search.lists_on_device += int(table.on_device[rows[mine]].sum())
            search.lists_scanned += int(table.position[rows[mine]].sum())
            search.hits_cached += int(cached[mine].sum())
            if search.is_done:
                ended.append(search)
            first = stop
        table.remove(rows)
        for search in ended:
            self._finish(search)

    def _filled(self, table: SlotTable, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those rows that have all they are to find; the others go on with more lists."""
        if table.allowed is None:
            return rows if self._stops is None else self._ended(self._stops, table, rows)
        wanted = min(table.labels.shape[1], table.allowed.count)
        is_short = (table.labels[rows] >= 0).sum(axis=1) < wanted
        added = table.widen(rows[is_short])
        for task_id, lists in zip(table.task_ids[rows[is_short]].tolist(), added, strict=True):
            self._searches[task_id].lists_added += int(lists)
        is_short[is_short] = added > 0
        filled: NDArray[np.int64] = rows[~is_short]
        return filled

    def _ended(
        self, stops: TargetStops, table: SlotTable, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return those rows that need no more lists; none where that fails, as do their tasks."""
        try:
            return stops.ended(table, rows)
        except Exception as error:
            for task_id in np.unique(table.task_ids[rows]).tolist():
                self._fail(task_id, f"telling whether a search may stop failed: {error}")
            return rows[:0]

    def _sample(
        self, table: SlotTable, rows: NDArray[np.int64], distances: NDArray[np.float32]
    ) -> None:
        """Have a share of the rows that scanned all their clusters run again, [m] and [m, k]."""
        if self._check is None or table.allowed is not None:
            return
        for number, row in enumerate(rows.tolist()):
            search = self._searches[int(table.task_ids[row])]
            if not search.may_stop and self._check.wants():
                found = distances[number : number + 1, : search.payload.topk].copy()
                query = table.queries[row : row + 1].copy()
                self._check.add(Sample(query, found, 0, search.revision))

    @property
    def _notes(self) -> tuple[str, ...]:
        return (*self._own_notes, *self._worker.notes)

    @property
    def _recall(self) -> RecallEstimate | None:
        return None if self._check is None else self._check.estimate

    def _run_again(self, counts: StepCounts) -> None:
        """Carry a sample's exact answer on, if nobody waits."""
        if self._check is not None and self._check.has_work and not self._has_tasks:
            counts.compared += self._check.advance()

    def _found(self, table: SlotTable, rows: NDArray[np.int64]) -> SortedHits | None:
        """Return the hits that rows have by now, [m, k], or None: then their tasks have failed."""
        heaps = (table.distances[rows], table.labels[rows])
        try:
            found = self._worker.hits(table.queries[rows], *heaps, table.k)
            return found if self._stops is None else self._stops.with_known(table, rows, found)
        except Exception as error:
            for task_id in np.unique(table.task_ids[rows]).tolist():
                self._fail(task_id, f"reading the hits failed: {error}")
            return None

    def _ingest(self, counts: StepCounts) -> None:
        """Store one waiting ingestion, unless more urgent searches are in flight."""
        if not self._ingests:
            return
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
