"""Graph search with continuous batching: searches join and leave between steps. (Trinity §3.2)"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

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
from heddle.core.tasks import Task
from heddle.costs.step_report import StepReport
from heddle.engines.vector.corpus.allowed import FEW_MAX
from heddle.engines.vector.corpus.ingest_queue import IngestQueue, WaitingIngest, ingest_refusal
from heddle.engines.vector.corpus.word_searches import only_words_lack
from heddle.engines.vector.graph.comparing import ComparedRow
from heddle.engines.vector.graph.scheduler import RUNNABLE, TOPM, in_extends, soft_deadline_s
from heddle.engines.vector.graph.search import GraphSearch, graph_refusal
from heddle.engines.vector.graph.slots import GraphSlots
from heddle.engines.vector.graph.waiting import WaitingSearches
from heddle.engines.vector.graph.worker_port import Advanced, FollowedCorpus, GraphWorker
from heddle.engines.vector.recall.self_check import Sample, SelfCheck
from heddle.engines.vector.search import ascending, dims_refusal

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
PRIOR_SHARE_MIN = 0.1  # of its first guess that an extend is taken for, whatever was measured
EXTENDS_PER_TOPM = 1.2  # before anything is measured
LEARNT_SHARE = 0.05  # of what is learnt from one more finished search
NOTHING = Advanced(0, 0, [])


class GraphEngine:
    """Searches in flight over one graph; each step extends those with the least slack.

    Searches that came between two steps join the next one, those that are over leave at once.
    What a search finds never depends on who runs beside it. Over a corpus that changes, it sees
    all that was committed before it came, by whichever process.

    Args:
        name: the lane's name.
        epoch: the lane's epoch.
        worker: touches the graph.
        clock: measures steps.
        corpus: what the graph follows, and where vectors are stored; None = the graph is fixed.
        topm: candidates that a search keeps where it doesn't say.
        substage_budget_s: time for one step where the caller doesn't say [s].
        prior_s: the cost model's first guess.
        check: runs a share of the searches again, exactly; None = none.
        notes: what every search is told: where it goes another way than asked.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        worker: GraphWorker,
        clock: Clock,
        corpus: FollowedCorpus | None = None,
        *,
        topm: int = TOPM,
        substage_budget_s: float = 7.5e-4,
        prior_s: Mapping[str, float] = PRIOR_S,
        check: SelfCheck | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._worker, self._corpus, self._check = worker, corpus, check
        self._own_notes = notes
        self._topm = topm
        self._budget_s = substage_budget_s
        self._report = StepReport(name, epoch, clock, prior_s)
        self._extend_s_min = PRIOR_SHARE_MIN * prior_s["extends"]
        self._searches: dict[int, GraphSearch] = {}
        self._new: list[GraphSearch] = []  # those that came since the last step
        self._waiting = WaitingSearches()
        self._reporting: dict[int, GraphSearch] = {}  # those that asked for Progress
        self._lacking_words: dict[int, GraphSearch] = {}  # those that lack nothing but `by_words`
        self._slots = GraphSlots(worker.slot_count)
        self._rows_left = 0  # of all searches: those that wait and those in flight
        self._extends_per_topm = EXTENDS_PER_TOPM
        self._ingests = IngestQueue()
        self._has_new_search = False  # it has to see what is committed by now
        self._revision_wanted = 0

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._report.lane

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        if self._corpus is None:
            return frozenset({PrimitiveKind.SEARCHING})
        return frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION})

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._report.has_events or self._goes_on

    @property
    def rows_in_flight(self) -> int:
        """Queries that hold a slot."""
        return self._slots.count

    def apply(self, command: Command) -> None:
        """Take a command in; unknown tasks and what a graph has no use for are ignored."""
        match command:
            case Admit(task=task, report_every=report_every):
                self._admit(task, report_every)
            case Cancel(task_id=task_id) if task_id in self._searches:
                self._drop(self._searches[task_id])
                self._stop_words(task_id)
                self._report.cancelled(task_id)
            case Cancel(task_id=task_id) if self._lacking_words.pop(task_id, None):
                self._stop_words(task_id)
                self._report.cancelled(task_id)
            case Cancel(task_id=task_id) if self._ingests.remove(task_id):
                self._report.cancelled(task_id)
            case Steer():
                self._steer(command)
            case _:
                pass

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Make as many extends as fit the budget, waiting searches included; or store vectors.

        Rows that are compared with vectors one by one go on as well, in bounded pieces.

        Args:
            now_s: the lane's time; slack is counted on it [s].
            budget_s: time to work for [s]; inf = the engine's own step size.
        """
        self._report.begin()
        self._take_words()
        budget_s = self._budget_s if math.isinf(budget_s) else budget_s
        followed = self._join(now_s)
        done = self._extend(budget_s - self._report.costs.coefficients_s["call"])
        compared = self._compare()
        stored = self._ingest()
        compared += self._run_again()
        features = {
            "call": 1.0,
            "rows": float(done.seeded),
            "extends": float(done.extends),
            "compared": float(compared),
            "followed": float(followed),
            "stored": float(stored),
        }
        frame = self._report.frame(
            features,
            Load(running=self.rows_in_flight, waiting=self._rows_waiting),
            has_computed=bool(done.seeded or done.extends or compared or followed or stored),
            has_work=self._goes_on,
        )
        frame = frame._replace(recall=self._recall, notes=self._notes)
        if self._corpus is None:
            return frame
        gauges = {INDEX_REVISION: self._worker.revision, INDEX_VECTORS: self._worker.count}
        return frame._replace(gauges=gauges)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a search by words has ended beside the steps."""
        if self._corpus is not None:
            self._corpus.words.subscribe(wake)

    def close(self) -> None:
        """Let go of the corpus; nothing is called afterwards."""
        if self._corpus is not None:
            self._corpus.close()

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by the cost model [s]."""
        costs = self._report.costs.coefficients_s
        compared_s = costs["compared"] * FEW_MAX if self._goes_on else 0.0
        stored_s = costs["stored"] * self._ingests.rows_of_largest
        extends_s = max(self._budget_s, costs["rows"] + costs["extends"])
        return costs["call"] + extends_s + compared_s + stored_s

    def work(self, payload: SearchPayload) -> float:
        """Return how many candidates a search keeps over all its queries, at least 1."""
        return max(1, payload.rows * self._candidates(payload))

    # Tasks ------------------------------------------------------------------------------------

    @property
    def _goes_on(self) -> bool:
        return self._has_tasks or (self._check is not None and self._check.has_work)

    @property
    def _notes(self) -> tuple[str, ...]:
        return self._own_notes if self._corpus is None else (*self._own_notes, *self._corpus.notes)

    @property
    def _recall(self) -> RecallEstimate | None:
        return None if self._check is None else self._check.estimate

    @property
    def _has_tasks(self) -> bool:
        has_words = self._corpus is not None and self._corpus.words.has_results
        return bool(self._searches or self._ingests or has_words)

    @property
    def _rows_waiting(self) -> int:
        return self._rows_left - self._slots.count + self._ingests.rows

    @property
    def _extend_s(self) -> float:
        # A model that takes extends for free would let one step go on for ever.
        return max(self._report.costs.coefficients_s["extends"], self._extend_s_min)

    def _admit(self, task: Task, report_every: int) -> None:
        task_id, payload = task.task_id, task.payload
        if any(task_id in tasks for tasks in (self._searches, self._lacking_words, self._ingests)):
            return
        refusal: str | None
        if isinstance(payload, SearchPayload):
            refusal = graph_refusal(payload, follows=self._corpus is not None)
            if refusal is None:
                self._add(task, payload, report_every)
        elif isinstance(payload, IngestPayload) and self._corpus is not None:
            refusal = ingest_refusal(payload)
            if refusal is None:
                self._ingests.add(WaitingIngest(task_id, payload, task.identity.priority))
        else:
            refusal = f"{self.name} carries out no {type(payload).__name__}"
        if refusal is not None:
            self._report.failed(task_id, refusal, is_input=True)

    def _add(self, task: Task, payload: SearchPayload, report_every: int) -> None:
        topm = self._candidates(payload)
        notes = () if payload.nprobe is None else (NPROBE_UNUSED,)
        priority = task.identity.priority
        search = GraphSearch(
            task.task_id, payload, priority, topm, task.seconds_left, report_every, notes
        )
        if not search.rows:
            self._report.done(task.task_id, self._hits(search))
            return
        self._searches[task.task_id] = search
        self._rows_left += search.rows
        self._new.append(search)
        self._has_new_search = True
        if report_every > 0:
            self._reporting[task.task_id] = search

    def _candidates(self, payload: SearchPayload) -> int:
        return max(payload.topm or self._topm, payload.topk)

    def _steer(self, command: Steer) -> None:
        if command.budget_s is not None:
            self._budget_s = command.budget_s
        search = self._searches.get(-1 if command.task_id is None else command.task_id)
        if search is not None and command.priority not in (None, search.priority):
            search.priority = command.priority
            if search not in self._new:  # else it is queued in the next step
                self._waiting.add(search)
        if command.task_id is not None and command.priority is not None:
            self._ingests.prioritise(command.task_id, command.priority)

    def _drop(self, search: GraphSearch) -> None:
        """Forget a task and free its slots."""
        for slot in search.rows_of:
            self._slots.release(slot)
        del self._searches[search.task_id]
        search.is_dropped = True
        self._rows_left -= search.rows - search.rows_done
        self._reporting.pop(search.task_id, None)

    def _fail(self, task_ids: Iterable[int], message: str, *, is_input: bool = False) -> None:
        for task_id in task_ids:
            self._drop(self._searches[task_id])
            self._stop_words(task_id)
            self._report.failed(task_id, message, is_input=is_input)

    def _stop_words(self, task_id: int) -> None:
        if self._corpus is not None:
            self._corpus.words.cancel(task_id)

    # One step ---------------------------------------------------------------------------------

    def _take_words(self) -> None:
        """Take in what searches by words have found, and end the tasks that lacked only that."""
        if self._corpus is None:
            return
        for task_id, found in self._corpus.words.take():
            over = self._lacking_words.pop(task_id, None)
            if isinstance(found, Exception):
                message = f"the search by words failed: {found}"
                if over is None:
                    self._fail([task_id], message)
                else:
                    self._report.failed(task_id, message)
                continue
            search = over or self._searches[task_id]
            search.by_words = found
            if over is not None:
                self._report.done(task_id, self._hits(search))

    def _join(self, now_s: float) -> int:
        """Follow the corpus, then give free slots to waiting rows, least slack first.

        Returns how many changes were followed.
        """
        for search in self._new:
            search.expected = search.topm * self._extends_per_topm
            search.came_s = now_s
            self._take_time(search, vectors=self._worker.added)
            self._waiting.add(search)
        self._new = []
        followed = 0 if self._corpus is None else self._follow(self._corpus)
        if self._corpus is not None and not self._corpus.covers(self._revision_wanted):
            return followed
        while self._slots.free and (first := self._waiting.first()) is not None:
            if not first.rows_joined:
                if not self._slots.lets_in(first, RUNNABLE):
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
        return followed

    def _take_time(self, search: GraphSearch, *, vectors: int) -> None:
        """Settle when a search is due that is compared with so many vectors outside the graph."""
        costs = self._report.costs.coefficients_s
        alone_s = costs["rows"] + search.expected * self._extend_s + costs["compared"] * vectors
        search.deadline_s = soft_deadline_s(search.came_s, search.seconds_left, alone_s)

    def _follow(self, corpus: FollowedCorpus) -> int:
        """Bring the graph up to what was committed when the newest search came."""
        try:
            if self._has_new_search:
                self._revision_wanted = corpus.newest_revision()
                self._has_new_search = False
            if corpus.covers(self._revision_wanted) or self._slots.compared:
                return 0  # what a row is compared with piece by piece stays as it is
            if self._check is not None:
                self._check.index_changes()
            followed = corpus.follow(in_flight=self._slots.count > 0)
        except Exception as error:
            # Those of which some rows have begun as well: the others could wait for ever.
            waiting = [s.task_id for s in self._searches.values() if s.rows_waiting]
            self._fail(waiting, f"the graph can't follow the corpus: {error}")
            return 0
        # What came in may be the first that those who could find everything must not find.
        for search in [s for s in self._searches.values() if s.rows_joined and s.allowed is None]:
            self._scope(search)
        return followed

    def _begin(self, search: GraphSearch) -> bool:
        """Settle a search's revision and scope, and let it look for words.

        Returns whether the graph, or what was added to it, has anything to search in.
        """
        search.revision = self._worker.revision
        payload, dims = search.payload, self._worker.dims
        refusal = dims_refusal(payload.queries.shape[1], dims)
        if refusal is not None:
            self._fail([search.task_id], refusal, is_input=True)
            return False
        if payload.words is not None:
            assert self._corpus is not None, "words to look for without a corpus"
            self._corpus.words.start(search.task_id, payload)
        if dims is None:
            self._finish(search)
            return False
        if not self._scope(search):
            return False
        if search.allowed is not None and not search.allowed.count:
            self._finish(search)
            return False
        return True

    def _scope(self, search: GraphSearch) -> bool:
        """Settle which chunks a search may find; return whether that could be told."""
        scope = search.payload.scope
        if self._corpus is None:
            if scope.where:
                refusal = "where: this graph was opened without a corpus, which has the metadata"
                self._fail([search.task_id], refusal, is_input=True)
            return not scope.where
        try:
            search.allowed = self._corpus.allowed(scope)
        except InputError as error:
            self._fail([search.task_id], str(error), is_input=True)
            return False
        except Exception as error:
            self._fail([search.task_id], f"the corpus can't tell what is in scope: {error}")
            return False
        return True

    def _extend(self, budget_s: float) -> Advanced:
        """Extend searches for this long, and end those that are over."""
        if not self._slots.extended:
            return NOTHING
        extend_s = self._extend_s
        slots = self._slots.ordered(self._worker.extends.tolist(), extend_s)
        quantum = max(1, in_extends(budget_s, extend_s))
        seed_extends = in_extends(self._report.costs.coefficients_s["rows"], extend_s)
        try:
            done = self._worker.advance(np.array(slots), quantum, seed_extends)
            if done.over:
                self._leave_graph(done.over)
            if self._reporting:
                self._tell_progress()
        except Exception as error:
            # Some topM may be half merged, so no search in flight can go on.
            in_flight = [s.task_id for s in self._searches.values() if s.rows_of]
            self._fail(in_flight, f"graph search failed: {error}")
            return NOTHING
        return done

    def _leave_graph(self, slots: list[int]) -> None:
        """Take what searches that are over have found; compare those that may find more elsewhere.

        That is what was added since the graph was built, or, where a search lacks hits that are
        there, everything: one that is over can't be asked for its next.
        """
        self._note(slots)
        extends = self._worker.extends
        for slot in slots:
            search, made = self._slots.search_in(slot), int(extends[slot])
            search.extends += made
            self._learn(made / search.topm)
            distances, labels = search.row_found(slot)
            if self._worker.added:
                heap = distances.copy(), labels.copy()
                row = ComparedRow(search, search.query_in(slot), self._worker.nodes, *heap)
                self._slots.compare(slot, row)
            elif self._is_short(search, labels):
                self._compare_with_all(slot, search)
            else:
                self._finish_row(slot, search)

    def _is_short(self, search: GraphSearch, labels: NDArray[np.int64]) -> bool:
        """Whether a row has fewer hits than it wants and there are."""
        there = self._worker.count if search.allowed is None else search.allowed.count
        return int(np.count_nonzero(labels >= 0)) < min(search.payload.topk, there)

    def _compare_with_all(self, slot: int, search: GraphSearch) -> None:
        """Have a row compared with all that it may find, which takes longer than was thought."""
        self._slots.compare(slot, ComparedRow.of_all(search, search.query_in(slot)))
        self._take_time(search, vectors=self._worker.count)
        self._waiting.add(search)

    def _compare(self) -> int:
        """Carry rows on that are compared with vectors one by one, the most urgent first.

        Returns how many vectors that took: FEW_MAX at most, and what the last piece had too many.
        """
        compared = 0
        for slot, row in self._slots.compared_first():
            if compared >= FEW_MAX:
                break
            if row.search.is_dropped:  # with another row of its task
                continue
            try:
                compared += self._compare_row(slot, row, FEW_MAX - compared)
            except Exception as error:
                self._fail([row.search.task_id], f"comparing vectors one by one failed: {error}")
        return compared

    def _compare_row(self, slot: int, row: ComparedRow, vectors_max: int) -> int:
        """Compare a row with so many vectors, or a piece more; return how many it were."""
        compared = 0
        while compared < vectors_max:
            heap = row.distances, row.labels
            piece = self._worker.compare_piece(row.query, row.next, *heap, row.search.allowed)
            row.next = piece.next
            compared += piece.compared
            if piece.next:
                continue
            if not row.is_whole and self._is_short(row.search, row.labels):
                self._compare_with_all(slot, row.search)
                break
            distances, labels = ascending(*heap)
            row.search.note(slot, distances[0], labels[0])
            self._finish_row(slot, row.search)
            break
        return compared

    def _finish_row(self, slot: int, search: GraphSearch) -> None:
        """Free the slot of a row that has its hits, and end its task if that is complete."""
        if self._check is not None and search.allowed is None and self._check.wants():
            found = search.row_found(slot)[0].copy()
            self._check.add(Sample(search.query_in(slot), found, 0, search.revision))
        search.leave(slot)
        self._slots.release(slot)
        self._rows_left -= 1
        if search.is_done:
            self._finish(search)

    def _finish(self, search: GraphSearch) -> None:
        self._drop(search)
        if search.payload.words is None or search.by_words is not None:
            self._report.done(search.task_id, self._hits(search))
        else:
            self._lacking_words[search.task_id] = search
            self._report.tell(only_words_lack(search.task_id))

    def _hits(self, search: GraphSearch) -> Hits:
        notes = (*self._notes, *search.notes)
        return replace(search.hits(), notes=notes, recall=self._recall)

    def _run_again(self) -> int:
        """Carry a sample's exact answer on, if nobody waits; return how many were compared."""
        if self._check is None or not self._check.has_work or self._has_tasks:
            return 0
        return self._check.advance()

    def _note(self, slots: list[int]) -> None:
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
                search.note(slot, found[0][0], found[1][0])
        if not unscoped:
            return
        distances, labels = self._worker.top(np.array([*unscoped]), widest)
        for i, (slot, search) in enumerate(unscoped.items()):
            k = search.payload.topk
            search.note(slot, distances[i, :k], labels[i, :k])

    def _learn(self, extends_per_topm: float) -> None:
        self._extends_per_topm += LEARNT_SHARE * (extends_per_topm - self._extends_per_topm)

    def _tell_progress(self) -> None:
        """Tell the hits so far of those that asked for it and go on."""
        for search in self._reporting.values():
            extended = [slot for slot in search.rows_of if self._slots.is_extended(slot)]
            begun = [slot for slot in extended if self._worker.extends[slot]]
            if not begun:
                continue
            search.steps += 1
            if search.steps % search.report_every:
                continue
            self._note(begun)
            made = int(self._worker.extends[begun].sum())
            through = search.rows_joined - len(extended)
            done = through + min(made / search.expected, len(begun))
            self._report.tell(search.progress(min(done / search.rows, 1.0)))

    def _ingest(self) -> int:
        """Store one waiting ingestion, unless more urgent searches are there; return its rows."""
        ingest = self._ingests.next(search.priority for search in self._searches.values())
        if ingest is None:
            return 0
        assert self._corpus is not None, "a fixed graph took vectors to store"
        task_id, payload = ingest.task_id, ingest.payload
        self._ingests.remove(task_id)
        refusal = dims_refusal(payload.vectors.shape[1], self._worker.dims)
        if refusal is not None:
            self._report.failed(task_id, refusal, is_input=True)
            return 0
        try:
            revision = self._corpus.store(payload.chunk_ids, payload.vectors)
        except Exception as error:
            self._report.failed(task_id, f"storing vectors failed: {error}")
            return 0
        self._report.done(task_id, Ingested(payload.rows, revision))
        return payload.rows
