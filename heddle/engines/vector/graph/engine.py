"""Graph search with continuous batching: searches join and leave between steps. (Trinity §3.2)"""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from heddle.core.commands import Admit, Cancel, Command, Steer
from heddle.core.frames import Frame, Load
from heddle.core.payloads import SearchPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Task
from heddle.costs.step_report import StepReport
from heddle.engines.vector.graph.scheduler import quantum, soft_deadline_s
from heddle.engines.vector.graph.search import GraphSearch, graph_refusal
from heddle.engines.vector.graph.slots import GraphSlots
from heddle.engines.vector.graph.waiting import WaitingSearches
from heddle.engines.vector.graph.worker_port import GraphWorker
from heddle.engines.vector.search import dims_refusal

PRIOR_S: Mapping[str, float] = MappingProxyType({"call": 5e-5, "rows": 4e-5, "extends": 3e-6})
"""Seconds for a step, for a row to start, and for an extend, before anything is measured."""
EXTENDS_PER_TOPM = 1.2  # before anything is measured
LEARNT_SHARE = 0.05  # of what is learnt from one more finished search


class GraphEngine:
    """Searches in flight over one graph; each step extends those with the least slack.

    Searches that came between two steps join the next one, those that are over leave at once.
    What a search finds never depends on who runs beside it.

    Args:
        name: the lane's name.
        epoch: the lane's epoch.
        worker: touches the graph.
        clock: measures steps.
        topm: candidates that a search keeps where it doesn't say.
        substage_budget_s: time for one step where the caller doesn't say [s].
        prior_s: the cost model's first guess.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        worker: GraphWorker,
        clock: Clock,
        *,
        topm: int = 64,
        substage_budget_s: float = 5e-4,
        prior_s: Mapping[str, float] = PRIOR_S,
    ) -> None:
        self._worker = worker
        self._topm = topm
        self._budget_s = substage_budget_s
        self._report = StepReport(name, epoch, clock, prior_s)
        self._searches: dict[int, GraphSearch] = {}
        self._new: list[GraphSearch] = []  # those that came since the last step
        self._waiting = WaitingSearches()
        self._reporting: dict[int, GraphSearch] = {}  # those that asked for Progress
        self._slots = GraphSlots(worker.slot_count)
        self._rows_left = 0  # of all searches: those that wait and those in flight
        self._extends_per_topm = EXTENDS_PER_TOPM

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._report.lane

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return frozenset({PrimitiveKind.SEARCHING})

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._report.has_events or bool(self._searches)

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
                self._report.cancelled(task_id)
            case Steer():
                self._steer(command)
            case _:
                pass

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Start waiting searches and make as many extends as fit the budget.

        Args:
            now_s: the lane's time; slack is counted on it [s].
            budget_s: time to work for [s]; inf = the engine's own step size.
        """
        self._report.begin()
        budget_s = self._budget_s if math.isinf(budget_s) else budget_s
        costs = self._report.costs.coefficients_s
        left_s = budget_s - costs["call"]
        started = self._join(now_s, left_s)
        extends = self._extend(left_s - started * costs["rows"])
        return self._report.frame(
            {"call": 1.0, "rows": float(started), "extends": float(extends)},
            Load(running=self.rows_in_flight, waiting=self._rows_waiting),
            has_computed=bool(started or extends),
            has_work=bool(self._searches),
        )

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by the cost model [s]."""
        costs = self._report.costs
        joining = min(self._rows_waiting, self._slots.free)
        fixed_s = costs.predict_s({"call": 1.0, "rows": float(joining)})
        return fixed_s + max(self._budget_s, costs.coefficients_s["extends"])

    # Tasks ------------------------------------------------------------------------------------

    @property
    def _rows_waiting(self) -> int:
        return self._rows_left - self._slots.count

    def _admit(self, task: Task, report_every: int) -> None:
        task_id, payload = task.task_id, task.payload
        if task_id in self._searches:
            return
        refusal: str | None
        if not isinstance(payload, SearchPayload):
            refusal = f"{self.name} carries out no {type(payload).__name__}"
        else:
            refusal = graph_refusal(payload) or dims_refusal(
                payload.queries.shape[1], self._worker.dims
            )
            if refusal is None:
                self._add(task, payload, report_every)
        if refusal is not None:
            self._report.failed(task_id, refusal, is_input=True)

    def _add(self, task: Task, payload: SearchPayload, report_every: int) -> None:
        topm = max(payload.topm or self._topm, payload.topk)
        search = GraphSearch(
            task.task_id, payload, task.identity.priority, topm, task.seconds_left, report_every
        )
        if not payload.rows:
            self._report.done(task.task_id, search.hits(self._worker.revision))
            return
        self._searches[task.task_id] = search
        self._rows_left += payload.rows
        self._new.append(search)
        if report_every > 0:
            self._reporting[task.task_id] = search

    def _steer(self, command: Steer) -> None:
        if command.budget_s is not None:
            self._budget_s = command.budget_s
        search = self._searches.get(-1 if command.task_id is None else command.task_id)
        if search is not None and command.priority not in (None, search.priority):
            search.priority = command.priority
            self._slots.prioritise(search, command.priority)
            self._waiting.add(search)

    def _drop(self, search: GraphSearch) -> None:
        """Forget a task and free its slots."""
        for slot in search.rows_of:
            self._slots.release(slot)
        del self._searches[search.task_id]
        search.is_dropped = True
        self._rows_left -= search.payload.rows - search.rows_done
        self._reporting.pop(search.task_id, None)

    def _fail(self, searches: set[int], message: str) -> None:
        for task_id in searches:
            self._drop(self._searches[task_id])
            self._report.failed(task_id, message)

    # One step ---------------------------------------------------------------------------------

    def _join(self, now_s: float, budget_s: float) -> int:
        """Give free slots to waiting rows, those with the least slack first; return how many.

        At least one, then no more than can be started within the budget.
        """
        costs = self._report.costs.coefficients_s
        for search in self._new:
            alone_s = costs["rows"] + self._expected(search) * costs["extends"]
            search.deadline_s = soft_deadline_s(now_s, search.seconds_left, alone_s)
            self._waiting.add(search)
        self._new = []
        room = min(self._slots.free, max(1, int(budget_s / max(costs["rows"], 1e-9))))
        slots, queries, topms = [], [], []
        while room and (first := self._waiting.first()) is not None:
            taken = min(room, first.rows_waiting)
            room -= taken
            slots.append(self._slots.take(first, taken, self._expected(first)))
            queries.append(first.join(slots[-1]))
            topms.append(np.full(taken, first.topm))
        if not slots:
            return 0
        return self._seed(np.concatenate(slots), np.concatenate(queries), np.concatenate(topms))

    def _seed(
        self, slots: NDArray[np.int64], queries: NDArray[np.float32], topms: NDArray[np.int64]
    ) -> int:
        try:
            self._worker.seed(slots, queries.astype(np.float32, copy=False), topms)
        except Exception as error:
            self._fail(self._tasks_in(slots), f"starting a graph search failed: {error}")
            return 0
        return len(slots)

    def _extend(self, budget_s: float) -> int:
        """Extend searches for this long, and end those that are over; return the extends made."""
        if not self._slots.count:
            return 0
        extend_s = self._report.costs.coefficients_s["extends"]
        slots, left = self._slots.ordered(self._worker.extends, extend_s)
        try:
            made = self._worker.advance(slots, quantum(budget_s, extend_s, left))
        except Exception as error:
            # Some topM may be half merged, so no search in flight can go on.
            self._fail(self._tasks_in(slots), f"graph search failed: {error}")
            return 0
        over = slots[self._worker.is_over(slots)]
        if len(over):
            self._finish_rows(over)
        if self._reporting:
            self._tell_progress()
        return made

    def _tasks_in(self, slots: NDArray[np.int64]) -> set[int]:
        return {self._slots.search_in(slot).task_id for slot in slots.tolist()}

    def _finish_rows(self, slots: NDArray[np.int64]) -> None:
        """Take the hits of searches that are over out of their slots, and end complete tasks."""
        self._note(slots)
        for slot, extends in zip(slots.tolist(), self._worker.extends(slots).tolist(), strict=True):
            search = self._slots.search_in(slot)
            search.leave(slot)
            self._slots.release(slot)
            self._rows_left -= 1
            self._learn(extends / search.topm)
            if search.is_done:
                self._drop(search)
                self._report.done(search.task_id, search.hits(self._worker.revision))

    def _note(self, slots: NDArray[np.int64]) -> None:
        """Copy the hits so far of these slots into their searches."""
        searches = [self._slots.search_in(slot) for slot in slots.tolist()]
        widest = max(search.payload.topk for search in searches)
        distances, labels = self._worker.top(slots, widest)
        for i, (slot, search) in enumerate(zip(slots.tolist(), searches, strict=True)):
            k = search.payload.topk
            search.note(slot, distances[i, :k], labels[i, :k])

    def _expected(self, search: GraphSearch) -> float:
        return search.topm * self._extends_per_topm

    def _learn(self, extends_per_topm: float) -> None:
        self._extends_per_topm += LEARNT_SHARE * (extends_per_topm - self._extends_per_topm)

    def _tell_progress(self) -> None:
        """Tell the hits so far of those that asked for it and go on."""
        for search in self._reporting.values():
            if not search.rows_of:
                continue
            search.steps += 1
            if search.steps % search.report_every:
                continue
            slots = np.array(list(search.rows_of), np.int64)
            self._note(slots)
            made = int(self._worker.extends(slots).sum())
            done = search.rows_done + min(made / self._expected(search), len(slots))
            self._report.tell(search.progress(min(done / search.payload.rows, 1.0)))
