"""Graph search with continuous batching: searches join and leave between steps. (Trinity §3.2)"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from heddle.core.payloads import SearchPayload
from heddle.core.ports import Clock
from heddle.core.tasks import Task
from heddle.engines.vector.corpus.allowed import FEW_MAX
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.graph.comparing import ComparedRow
from heddle.engines.vector.graph.extend_times import ExtendTimes
from heddle.engines.vector.graph.scheduler import RUNNABLE, TOPM, in_extends
from heddle.engines.vector.graph.search import GraphSearch, graph_refusal
from heddle.engines.vector.graph.slots import GraphSlots
from heddle.engines.vector.graph.waiting import WaitingSearches
from heddle.engines.vector.graph.worker_port import Advanced, GraphCorpus, GraphWorker
from heddle.engines.vector.recall.self_check import Sample, SelfCheck
from heddle.engines.vector.search import ascending
from heddle.engines.vector.search_tasks import SearchTasks

PRIOR_S: Mapping[str, float] = MappingProxyType(
    {
        "call": 5e-5,
        "rows": 4e-5,
        "extends": 3e-6,
        "compared": 6e-8,
        "followed": 2e-5,
        "stored": 5e-5,
    }
)
"""Seconds, before anything is measured, for a step, for a row to begin, for an extend, for a
vector that a row is compared with outside the graph, and to follow or store a vector."""
NO_CLUSTERS = "this corpus is searched by its graph, which has no clusters"
NPROBE_UNUSED = f"nprobe: {NO_CLUSTERS}"
NOTHING = Advanced(0, 0, [])


class GraphSearches:
    """A SearchMethod over one graph: every step extends the searches with the least slack.

    Searches that came between two steps join the next one, those that are over leave at once.
    What a search finds never depends on the searches beside it.

    Args:
        tasks: the engine's searches.
        worker: touches the graph.
        corpus: what the graph follows; None = the graph is fixed.
        topm: candidates that a search keeps where it names no number.
        runnable: tasks that have begun and go on, but for more urgent ones.
        extend_s: the first guess of what an extend takes [s].
    """

    def __init__(
        self,
        tasks: SearchTasks[GraphSearch],
        worker: GraphWorker,
        corpus: GraphCorpus | None,
        *,
        topm: int,
        runnable: int,
        extend_s: float,
    ) -> None:
        self._tasks, self._worker, self._corpus = tasks, worker, corpus
        self._topm, self._runnable = topm, runnable
        self._times = ExtendTimes(lambda: tasks.costs, extend_s)
        self._new: list[GraphSearch] = []  # those that came since the last step
        self._waiting = WaitingSearches()
        self._slots = GraphSlots(worker.slot_count)
        self._rows_left = 0  # of all searches: those that wait and those in flight

    @property
    def dims(self) -> int | None:
        """Length of a vector; None while there is none."""
        return self._worker.dims

    @property
    def revision(self) -> int:
        """The corpus revision that is searched."""
        return self._worker.revision

    @property
    def vectors(self) -> int:
        """Vectors that can be found."""
        return self._worker.count

    @property
    def rows_in_flight(self) -> int:
        """Queries that hold a slot."""
        return self._slots.count

    @property
    def rows_waiting(self) -> int:
        """Queries that wait for a slot."""
        return self._rows_left - self._slots.count

    @property
    def has_work(self) -> bool:
        """Whether there are searches: each step advances some."""
        return bool(self._tasks.running)

    @property
    def may_follow(self) -> bool:
        """Whether no row is compared piece by piece: the vectors under it must stay."""
        return not self._slots.compared

    def refusal(self, payload: SearchPayload) -> str | None:
        """Return why a search can't be carried out, or None."""
        return graph_refusal(payload, follows=self._corpus is not None)

    def search_of(self, task: Task, payload: SearchPayload, report_every: int) -> GraphSearch:
        """Return a task's search, which is not queued yet."""
        return GraphSearch(
            task.task_id,
            payload,
            task.identity.priority,
            report_every,
            notes=() if payload.nprobe is None else (NPROBE_UNUSED,),
            topm=self._candidates(payload),
            seconds_left=task.seconds_left,
        )

    def add(self, search: GraphSearch) -> None:
        """Queue a search."""
        if not search.rows:
            self._tasks.end_empty(search)
            return
        self._rows_left += search.rows
        self._new.append(search)

    def prioritise(self, search: GraphSearch) -> None:
        """Queue a search anew under its new class."""
        if search not in self._new:  # else it is queued in the next step
            self._waiting.add(search)

    def drop(self, search: GraphSearch) -> None:
        """Free all that a search holds; it has ended, or no longer counts."""
        for slot in search.rows_of:
            self._slots.release(slot)
        search.is_dropped = True
        self._rows_left -= search.rows - search.rows_done

    def queue(self, now_s: float) -> None:
        """Order the searches that came since the last step by when they are due."""
        for search in self._new:
            self._times.expect(search, now_s, vectors=self._worker.added)
            self._waiting.add(search)
        self._new = []

    def follow(self) -> int:
        """Bring a piece of the corpus's changes into the graph; return the number of changes."""
        assert self._corpus is not None, "a fixed graph has nothing to follow"
        followed = self._corpus.follow(in_flight=self._slots.count > 0)
        # What came in may be the first that searches without a filter must not find.
        for search in list(self._tasks.running.values()):
            if search.rows_joined and search.allowed is None:
                self._tasks.settle_scope(search)
        return followed

    def held_up(self) -> list[int]:
        """Return the tasks that can't go on before the graph has followed the corpus.

        Those of which some rows have begun are among them: the others could wait for ever.
        """
        return [s.task_id for s in self._tasks.running.values() if s.rows_waiting]

    def advance(self, budget_s: float, *, may_begin: bool) -> Mapping[str, float]:
        """Give free slots to waiting rows, then extend and compare; return the features."""
        if may_begin:
            self._join()
        done = self._extend(budget_s - self._tasks.costs.coefficients_s["call"])
        compared = self._compare()
        return {"rows": done.seeded, "extends": done.extends, "compared": compared}

    def predicted_step_s(self, budget_s: float, *, goes_on: bool) -> float:
        """Return how long the next `advance` should take [s]."""
        costs = self._tasks.costs.coefficients_s
        compared_s = costs["compared"] * FEW_MAX if goes_on else 0.0
        extends_s = max(budget_s, costs["rows"] + costs["extends"])
        return costs["call"] + extends_s + compared_s

    def work(self, payload: SearchPayload) -> float:
        """Return how many candidates a search keeps over all its queries, at least 1."""
        return max(1, payload.rows * self._candidates(payload))

    def _candidates(self, payload: SearchPayload) -> int:
        return max(payload.topm or self._topm, payload.topk)

    def _join(self) -> None:
        """Give free slots to waiting rows, least slack first."""
        while self._slots.free and (first := self._waiting.first()) is not None:
            if not first.rows_joined:
                if not self._slots.lets_in(first, self._runnable):
                    break
                if not self._begin(first):
                    continue
            slots = self._slots.take(first, min(self._slots.free, first.rows_waiting))
            queries = first.join(slots)
            if first.allowed is None or not first.allowed.is_few:
                self._worker.start(slots, queries, first.topm)
                continue
            for slot in slots:
                self._slots.compare(slot, ComparedRow.of_all(first, first.query_in(slot)))

    def _begin(self, search: GraphSearch) -> bool:
        """Settle a search's revision and scope; return whether there is something to find."""
        if not self._tasks.begin(search, self.revision, self.dims):
            return False
        if search.allowed is not None and not search.allowed.count:
            self._tasks.finish(search)
            return False
        return True

    def _extend(self, budget_s: float) -> Advanced:
        """Extend searches for this long, and end those that are over."""
        if not self._slots.extended:
            return NOTHING
        extend_s = self._times.extend_s
        slots = self._slots.ordered(self._worker.extends.tolist(), extend_s)
        quantum = max(1, in_extends(budget_s, extend_s))
        seed_extends = in_extends(self._tasks.costs.coefficients_s["rows"], extend_s)
        # Where it fails some topM may be half merged, so no search in flight can go on.
        with self._tasks.failing(
            "graph search failed",
            lambda: [search.task_id for search in self._tasks.running.values() if search.rows_of],
        ):
            done = self._worker.advance(np.array(slots), quantum, seed_extends)
            if done.over:
                self._leave_graph(done.over)
            if self._tasks.reporting:
                self._tell_progress()
            return done
        return NOTHING

    def _leave_graph(self, slots: list[int]) -> None:
        """Take what searches that are over have found; compare those that may find more elsewhere.

        That is what was added since the graph was built, or, where a search lacks hits that are
        there, everything: one that is over can't be asked for its next.
        """
        self._take(slots)
        extends = self._worker.extends
        for slot in slots:
            search, made = self._slots.search_in(slot), int(extends[slot])
            search.counts.nodes_opened += made
            self._times.learn(search, made)
            distances, labels = search.row_found(slot)
            if self._worker.added:
                heap = distances.copy(), labels.copy()
                row = ComparedRow(search, search.query_in(slot), self._worker.nodes, *heap)
                self._slots.compare(slot, row)
            elif search.is_short(labels, self._worker.count):
                self._compare_with_all(slot, search)
            else:
                self._finish_row(slot, search)

    def _compare_with_all(self, slot: int, search: GraphSearch) -> None:
        """Have a row compared with all that it may find, which takes longer than was thought."""
        self._slots.compare(slot, ComparedRow.of_all(search, search.query_in(slot)))
        self._times.settle(search, vectors=self._worker.count)
        self._waiting.add(search)

    def _compare(self) -> int:
        """Advance rows that are compared with vectors one by one, the most urgent first.

        Returns the vectors compared: FEW_MAX, and what the last piece had beyond that.
        """
        compared = 0
        for slot, row in self._slots.compared_first():
            if compared >= FEW_MAX:
                break
            if row.search.is_dropped:  # with another row of its task
                continue
            with self._tasks.failing("comparing vectors one by one failed", row.whose):
                compared += self._compare_row(slot, row, FEW_MAX - compared)
        return compared

    def _compare_row(self, slot: int, row: ComparedRow, vectors_max: int) -> int:
        """Compare a row with `vectors_max` vectors, or a piece more; return how many it was."""
        compared = 0
        while compared < vectors_max:
            heap = row.distances, row.labels
            piece = self._worker.compare_piece(row.query, row.next, *heap, row.search.allowed)
            row.next = piece.next
            compared += piece.compared
            if piece.next:
                continue
            if not row.is_whole and row.search.is_short(row.labels, self._worker.count):
                self._compare_with_all(slot, row.search)
                break
            distances, labels = ascending(*heap)
            row.search.take(slot, distances[0], labels[0])
            self._finish_row(slot, row.search)
            break
        return compared

    def _finish_row(self, slot: int, search: GraphSearch) -> None:
        """Free the slot of a row that has its hits, and end its task if that is complete."""
        check = self._tasks.check
        if check is not None and search.allowed is None and check.wants():
            found = search.row_found(slot)[0].copy()
            check.add(Sample(search.query_in(slot), found, 0, search.revision))
        search.leave(slot)
        self._slots.release(slot)
        self._rows_left -= 1
        if search.is_done:
            self._tasks.finish(search)

    def _take(self, slots: list[int]) -> None:
        """Copy the hits so far of these slots into their searches."""
        unscoped, widest = {}, 0
        for slot in slots:
            search = self._slots.search_in(slot)
            k = search.payload.topk
            if search.allowed is None:
                unscoped[slot] = search
                widest = max(widest, k)
            else:
                found = self._worker.top(np.array([slot]), k, search.allowed)
                search.take(slot, found[0][0], found[1][0])
        if not unscoped:
            return
        distances, labels = self._worker.top(np.array([*unscoped]), widest)
        for i, (slot, search) in enumerate(unscoped.items()):
            k = search.payload.topk
            search.take(slot, distances[i, :k], labels[i, :k])

    def _tell_progress(self) -> None:
        """Report the hits so far of those that asked for it and go on."""
        for search in self._tasks.reporting.values():
            extended = [slot for slot in search.rows_of if self._slots.is_extended(slot)]
            begun = [slot for slot in extended if self._worker.extends[slot]]
            if not begun:
                continue
            search.steps += 1
            if search.steps % search.report_every:
                continue
            self._take(begun)
            made = int(self._worker.extends[begun].sum())
            through = search.rows_joined - len(extended)
            done = through + min(made / search.expected, len(begun))
            self._tasks.tell(search.progress(min(done / search.rows, 1.0)))


def graph_engine(
    name: str,
    epoch: int,
    worker: GraphWorker,
    clock: Clock,
    corpus: GraphCorpus | None = None,
    *,
    topm: int = TOPM,
    runnable: int = RUNNABLE,
    substage_budget_s: float = 7.5e-4,
    prior_s: Mapping[str, float] = PRIOR_S,
    check: SelfCheck | None = None,
    notes: tuple[str, ...] = (),
) -> SearchEngine[GraphSearch]:
    """Return an engine over a graph; see `SearchEngine` and `GraphSearches`."""

    def searches(tasks: SearchTasks[GraphSearch]) -> GraphSearches:
        return GraphSearches(
            tasks, worker, corpus, topm=topm, runnable=runnable, extend_s=prior_s["extends"]
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
