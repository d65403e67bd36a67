"""Searches of inverted lists: how they wait, begin, and join the sub-stages. (HedraRAG §4.2)"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.payloads import SearchPayload
from heddle.core.ports import Clock
from heddle.core.tasks import Optimizations, Task
from heddle.engines.vector.corpus.allowed import FEW_MAX, Allowed
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.ivf.early_stop.course import Start
from heddle.engines.vector.ivf.early_stop.course_table import NO_COURSE
from heddle.engines.vector.ivf.early_stop.finality import Finality
from heddle.engines.vector.ivf.early_stop.target_stops import TargetStops
from heddle.engines.vector.ivf.scanner_port import IvfCorpus
from heddle.engines.vector.ivf.search import IvfSearch
from heddle.engines.vector.ivf.step_counts import PRIOR_S, StepCounts
from heddle.engines.vector.ivf.substages import Substages
from heddle.engines.vector.recall.self_check import SelfCheck
from heddle.engines.vector.search import search_refusal
from heddle.engines.vector.search_tasks import SearchTasks

TOPM_UNUSED = "topm: this corpus is searched by its clusters; a graph keeps candidates"
FILTERED_IN_FULL = "target recall: a search with a filter scans every planned list"


@dataclass(frozen=True, slots=True, eq=False)
class Joining:
    """Rows [first, stop) of a search that get a slot now."""

    search: IvfSearch
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
    """What rows that join together have in common; `may_stop`: before their last list."""

    k: int
    nprobe: int
    allowed: Allowed | None
    may_stop: bool


class IvfSearches:
    """A SearchMethod over inverted lists: every step scans some lists of every row in flight.

    What was deleted leaves the index only between searches, so each search has one state of the
    corpus under it from its first list to its last.

    Args:
        tasks: the engine's searches.
        corpus: serves the lists.
        slots: queries in flight at most; more wait.
        lists_per_step: the most lists one query scans in a step; None leaves it to the budget.
        stops: ends searches whose request allows approximate answers at a promised recall; None =
            each scans all its lists.
        finality: predicts how likely partial hits are the final ones; None = partial hits are
            reported every `report_every` steps.
        clock: dates the searches.
        order: whose lists are scanned first.
    """

    def __init__(
        self,
        tasks: SearchTasks[IvfSearch],
        corpus: IvfCorpus,
        *,
        slots: int,
        lists_per_step: int | None,
        stops: TargetStops | None,
        finality: Finality | None,
        clock: Clock,
        order: CallOrder,
    ) -> None:
        self._tasks, self._corpus, self._stops = tasks, corpus, stops
        self._clock, self._order = clock, order
        self._slots = slots
        self._waiting: dict[int, IvfSearch] = {}  # those with rows that have no slot
        self._counted: NDArray[np.int64] | None = None  # the lists' sizes, summed to `_vectors`
        self._vectors = 0
        self._substages = Substages(tasks, corpus, stops, finality, lists_per_step)

    @property
    def dims(self) -> int | None:
        """Length of a vector; None while the index is empty."""
        return self._corpus.scanner.dims

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        return self._corpus.revision

    @property
    def vectors(self) -> int:
        """Vectors in the index."""
        sizes = self._corpus.scanner.list_sizes
        if sizes is not self._counted:
            self._counted, self._vectors = sizes, int(sizes.sum())
        return self._vectors

    @property
    def rows_in_flight(self) -> int:
        """Queries that hold a slot."""
        return self._substages.tables.count

    @property
    def rows_waiting(self) -> int:
        """Queries that wait for a slot."""
        return sum(search.rows_waiting for search in self._waiting.values())

    @property
    def has_work(self) -> bool:
        """Whether there are searches: each step advances some."""
        return bool(self._tasks.running)

    @property
    def may_follow(self) -> bool:
        """Whether a search waits, for which the index is to follow the corpus."""
        return bool(self._waiting)

    def refusal(self, payload: SearchPayload) -> str | None:
        """Return why a search can't be carried out, or None."""
        return search_refusal(payload)

    def search_of(self, task: Task, payload: SearchPayload, report_every: int) -> IvfSearch:
        """Return a task's search, which is not queued yet."""
        is_approx = task.optimizations is Optimizations.APPROX
        return IvfSearch(
            task.task_id,
            payload,
            task.identity.priority,
            report_every,
            notes=() if payload.topm is None else (TOPM_UNUSED,),
            request_id=task.identity.request_id,
            may_stop=self._stops is not None and is_approx,
            rank=self._order.rank(task, self._clock.now_s(), self._alone_s(payload)),
        )

    def add(self, search: IvfSearch) -> None:
        """Queue a search."""
        self._waiting[search.task_id] = search

    def prioritise(self, search: IvfSearch) -> None:
        """Move the rows of a search to its new class."""
        self._substages.tables.prioritise(search.task_id, search.priority)

    def drop(self, search: IvfSearch) -> None:
        """Free all that a search holds; it has ended, or no longer counts."""
        self._waiting.pop(search.task_id, None)
        self._substages.drop(search)

    def queue(self, now_s: float) -> None:
        """Do nothing: a search's rank is settled when it comes."""

    def follow(self) -> int:
        """Bring a piece of the corpus's changes into the index; return the number of changes."""
        begun = [search for search in self._tasks.running.values() if search.has_begun]
        unlimited = {search.payload.scope for search in begun if search.allowed is None}
        return self._corpus.follow(in_flight=bool(begun), unlimited=unlimited)

    def held_up(self) -> list[int]:
        """Return the tasks that can't go on before the index has followed the corpus."""
        return [search.task_id for search in self._waiting.values() if not search.has_begun]

    def advance(self, budget_s: float, *, may_begin: bool) -> Mapping[str, float]:
        """Give free slots to waiting rows, then run a sub-stage; return the features of both."""
        counts = StepCounts()
        if self._waiting:
            self._join(counts, may_begin=may_begin)
        self._substages.run(counts, budget_s)
        return counts.features()

    def predicted_step_s(self, budget_s: float, *, goes_on: bool) -> float:
        """Return how long the next `advance` should take [s]."""
        costs = self._tasks.costs
        lists = self._substages.tables.lists_left
        joining, free = 0, self._slots - self.rows_in_flight
        for search in self._waiting.values():
            rows = min(search.rows_waiting, free - joining)
            joining, lists = joining + rows, lists + rows * self._nprobe(search.payload)
        rows = self.rows_in_flight + joining
        scans_s = self._scans_s(lists, rows)
        fixed_s = costs.predict_s({"call": 1.0, "rows": joining})
        return fixed_s + min(scans_s, max(budget_s, 0.0))

    def work(self, payload: SearchPayload) -> float:
        """Return how many lists a search scans over all its queries, at least 1."""
        return max(1, payload.rows * self._nprobe(payload))

    def _alone_s(self, payload: SearchPayload) -> float:
        """Return how long a search should take by itself [s]."""
        rows = payload.rows
        fixed_s = self._tasks.costs.predict_s({"call": 1.0, "rows": rows})
        return fixed_s + self._scans_s(rows * self._nprobe(payload), rows)

    def _scans_s(self, lists: int, rows: int) -> float:
        """Return how long rows should take to scan lists of the average size [s]."""
        nlist = len(self._corpus.scanner.list_sizes)
        vectors = lists * (self.vectors / nlist) if nlist else 0.0
        return self._tasks.costs.predict_s({"lists": lists, "vectors": vectors, "scans": rows})

    def _nprobe(self, payload: SearchPayload) -> int:
        """Return how many lists a query scans: asked for, or the default, at most all."""
        nprobe = payload.nprobe or self._corpus.scanner.nprobe_default
        return min(nprobe, len(self._corpus.scanner.list_sizes))

    def _join(self, counts: StepCounts, *, may_begin: bool) -> None:
        """Give free slots to waiting rows, by class and rank."""
        free = self._slots - self.rows_in_flight
        groups: dict[Group, list[Joining]] = {}
        for search in sorted(self._waiting.values(), key=lambda s: (s.priority.value, s.rank)):
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

    def _group(self, search: IvfSearch) -> Group:
        topk, nprobe = search.payload.topk, search.nprobe or 0
        if self._stops is None or not search.may_stop or search.allowed is not None:
            return Group(topk, nprobe, search.allowed, may_stop=False)
        search.note(self._stops.why_full(topk, nprobe))
        return Group(self._stops.hits_kept(topk), nprobe, None, may_stop=True)

    def _begin(self, search: IvfSearch) -> bool:
        """Settle what a search scans; return whether there is something to find."""
        if not self._tasks.begin(search, self.revision, self.dims):
            return False
        search.nprobe, allowed = self._nprobe(search.payload), search.allowed
        if allowed is None:
            return True
        if search.may_stop:
            search.note(FILTERED_IN_FULL)
        if allowed.is_few or not allowed.count:
            search.nprobe = 0  # no list is scanned
        if not allowed.count:
            self._tasks.finish(search)
        return allowed.count > 0

    def _compare(self, search: IvfSearch, rows: int, counts: StepCounts) -> None:
        """Compare some rows of a search with all of the few vectors that it may find."""
        allowed = search.allowed
        assert allowed is not None, "without a filter nothing is few"
        rows = min(rows, (FEW_MAX - counts.compared) // allowed.count)
        if not rows:
            return
        joining = Joining(search, search.rows_joined, search.rows_joined + rows)
        what = "comparing with what the filter lets pass failed"
        with self._tasks.failing(what, lambda: [search.task_id]):
            found = self._corpus.scanner.nearest_of(joining.queries, allowed, search.payload.topk)
            counts.rows += rows
            counts.compared += rows * allowed.count
            search.rows_joined += rows
            search.finish_rows(np.arange(joining.first, joining.stop), found)
        if search.is_done:
            self._tasks.finish(search)

    def _join_group(self, common: Group, group: Sequence[Joining], counts: StepCounts) -> None:
        """Find the lists of rows with equal k and nprobe in one coarse search."""
        nprobe, allowed = common.nprobe, common.allowed
        queries = np.concatenate([joining.queries for joining in group], dtype=np.float32)
        whose = [joining.search.task_id for joining in group]
        with self._tasks.failing("coarse search failed", lambda: whose):
            queries = self._corpus.scanner.prepared(queries)
            # A filter may want more lists than nprobe: they are ordered at once.
            width = nprobe if allowed is None else len(self._corpus.scanner.list_sizes)
            lists = self._corpus.scanner.coarse(queries, width)
            stop: int | NDArray[np.int64] = nprobe
            courses: int | NDArray[np.int64] = NO_COURSE
            if common.may_stop and self._stops is not None:
                starts = [start for joining in group for start in joining.starts()]
                lists, stop, courses, compared = self._stops.begin(starts, queries, lists)
                counts.compared += compared
            rows = [joining.stop - joining.first for joining in group]
            self._substages.table(common.k, queries.shape[1], allowed).add(
                np.repeat(whose, rows),
                np.array([row for joining in group for row in range(joining.first, joining.stop)]),
                np.repeat([joining.search.priority.value for joining in group], rows),
                queries,
                lists,
                np.repeat([joining.search.rank for joining in group], rows),
                stop,
                courses,
            )


def ivf_engine(
    name: str,
    epoch: int,
    corpus: IvfCorpus,
    clock: Clock,
    *,
    slots: int = 64,
    substage_budget_s: float = 0.02,
    lists_per_step: int | None = None,
    prior_s: Mapping[str, float] = PRIOR_S,
    check: SelfCheck | None = None,
    stops: TargetStops | None = None,
    finality: Finality | None = None,
    notes: tuple[str, ...] = (),
    order: CallOrder = SHORTEST_FIRST,
) -> SearchEngine[IvfSearch]:
    """Return an engine over inverted lists; see `SearchEngine` and `IvfSearches`."""

    def searches(tasks: SearchTasks[IvfSearch]) -> IvfSearches:
        return IvfSearches(
            tasks,
            corpus,
            slots=slots,
            lists_per_step=lists_per_step,
            stops=stops,
            finality=finality,
            clock=clock,
            order=order,
        )

    return SearchEngine(
        name,
        epoch,
        clock,
        searches,
        corpus,
        substage_budget_s=substage_budget_s,
        prior_s=prior_s,
        check=check,
        notes=notes,
    )
