"""Which primitives of a request may start: regions open, results come in, waits run out."""

from dataclasses import dataclass
from typing import Final

from heddle.core.degradation import DegradationKind
from heddle.core.errors import HeddleError, InternalError, WorkflowError
from heddle.core.tasks import Optimizations
from heddle.graph.pgraph import PGraph
from heddle.graph.primitive import DecodeConfig, PrefillConfig, RerankConfig, SearchConfig
from heddle.lowering.rounds import round_key
from heddle.lowering.scope import Scope
from heddle.passes.ask_ahead import AskAhead
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.events import Retrieved
from heddle.runtime.folding import reported
from heddle.runtime.receipt import Span
from heddle.runtime.region_plan import RegionPlan, RegionPlanner
from heddle.runtime.request import PrimitiveRun, Request
from heddle.runtime.request_table import RequestTable
from heddle.runtime.values import as_passages
from heddle.workflow.nodes import ExtractionNode, GenerationNode, NodeId
from heddle.workflow.workflow import Workflow

FINDING: Final = (SearchConfig, RerankConfig)
ANSWERING: Final = (GenerationNode, ExtractionNode)


@dataclass(slots=True)
class Readiness:
    """Counts what each primitive still waits for, and queues it when that is nothing.

    Args:
        planner: lowers and optimises regions.
        dispatcher: takes the ready primitives that need an engine.
        requests: where a request ends whose primitives are all complete.

    Mutates: the requests' runs, stores and receipts; the dispatcher's `controls`.
    """

    planner: RegionPlanner
    dispatcher: Dispatcher
    requests: RequestTable

    def open_region(self, request: Request, entries: tuple[NodeId, ...], now_s: float) -> None:
        """Add the primitives that static edges reach from these nodes; stop an endless loop.

        Raises:
            WorkflowError: the request has run more nodes than its workflow's `max_steps`.
        """
        optimize = request.optimizations is not Optimizations.OFF
        plan = self.planner.plan(
            request.workflow, entries, request.scope, optimize, self._requested(request)
        )
        request.scope = plan.scope
        request.steps += len(plan.nodes)
        if request.steps > request.workflow.max_steps:
            raise WorkflowError(
                f"workflow {request.workflow.name!r} ran {request.steps} nodes, its bound is "
                f"max_steps={request.workflow.max_steps}: check the callable edge that loops"
            )
        self._open(request, plan, now_s)

    def passes_of(self, request: Request, workflow: Workflow, scope: Scope) -> tuple[str, ...]:
        """Return the passes that change a workflow's first region, as they would for a request.

        A pass that fails changes nothing.
        """
        optimize = request.optimizations is not Optimizations.OFF
        requested = self._requested(request)
        try:
            plan = self.planner.plan(
                workflow, workflow.entries, scope, optimize, requested, opens=False
            )
        except HeddleError:
            return ()
        return plan.passes

    def _requested(self, request: Request) -> frozenset[str]:
        """Return the passes that run for this request beside those that all get."""
        may_ask = request.optimizations is Optimizations.APPROX and self.dispatcher.can_ask()
        is_asked = may_ask and request.kv_reuse.asks_alone
        return frozenset({AskAhead().name} if is_asked else ())

    def open_round(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        """Add the primitives of the round that a generation is in; `run` waits for its end."""
        rounds, optimize = run.primitive, request.optimizations is not Optimizations.OFF
        plan = self.planner.plan_round(
            request.workflow, rounds, run.round, run.plan.depth, optimize
        )
        run.waits += 1
        end = round_key(rounds, "written", run.round)
        request.waiting_reads.setdefault(end, []).append(rounds.name)
        self._open(request, plan, now_s)

    def open_checks(
        self, request: Request, lookup: PrimitiveRun, checks: PGraph, now_s: float
    ) -> None:
        """Add searches that a lookup has to wait for once more."""
        for check in checks.primitives:
            for key in check.writes:
                lookup.waits += 1
                request.waiting_reads.setdefault(key, []).append(lookup.primitive.name)
        self._open(request, self.planner.plan_checks(checks), now_s)

    def open_wait(self, request: Request, key: str, now_s: float) -> None:
        """Let a workflow function go on once the value of a key is there."""
        name, number = request.workflow.name, len(request.receipt.barriers)
        self._open(request, self.planner.plan_wait(name, key, number), now_s)

    def _open(self, request: Request, plan: RegionPlan, now_s: float) -> None:
        request.receipt.passes.extend(plan.passes)
        request.receipt.degrade(DegradationKind.PASS, *plan.failures)
        request.regions += 1
        opened = {
            name: PrimitiveRun(planned.primitive, planned, request.regions, planned.waits)
            for name, planned in plan.primitives.items()
        }
        for key, readers in plan.readers.items():
            if key not in request.store:
                request.waiting_reads.setdefault(key, []).extend(readers)
                for reader in readers:
                    opened[reader].waits += 1
        request.runs.update(opened)
        for run in opened.values():
            if run.waits == 0:
                self._make_ready(request, run, now_s)

    def complete(self, request: Request, run: PrimitiveRun, value: object, now_s: float) -> None:
        """Write a primitive's value, and start what waited for it."""
        primitive, runs = run.primitive, request.runs
        del runs[primitive.name]
        if run.engine:
            request.receipt.spans.append(_span(request, run, now_s))
        ready = [runs[name] for name in (*run.plan.after, *run.then) if name in runs]
        if not isinstance(primitive.config, PrefillConfig):
            for key in primitive.writes:
                request.store.put(key, value)
                ready += [runs[name] for name in request.waiting_reads.pop(key, ())]
        _tell(request, run, value)
        for waiting in ready:
            waiting.waits -= 1
            if waiting.waits == 0:
                self._make_ready(request, waiting, now_s)
        if not runs and not request.is_ended:
            self.requests.finish(request, now_s)

    def _make_ready(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        if run.plan.is_control:
            self.dispatcher.controls.append((request, run))
        elif isinstance(run.primitive.config, DecodeConfig):
            if run.sent_s < 0:  # else it rode along with its prefill
                raise InternalError(f"{run.primitive.name!r} lost its prefill")
        else:
            self.dispatcher.queue(request, run, now_s)


def _tell(request: Request, run: PrimitiveRun, value: object) -> None:
    primitive, plan = run.primitive, run.plan
    if isinstance(primitive.config, FINDING):
        request.sink(Retrieved(primitive.node, as_passages(value)))
    if plan.value_of is not None:
        _rank(request, run, plan.value_of)
    if plan.finished is not None:
        request.sink(plan.finished)


def _rank(request: Request, run: PrimitiveRun, node: NodeId) -> None:
    """Remember what a node has written as the answer where none that ranks higher has."""
    if isinstance(request.workflow.nodes[node], ANSWERING):
        # Of generations that run side by side the order of the graph decides, not of time.
        rank = node in request.workflow.outputs, run.region, run.plan.place
        if rank > request.last_rank:
            request.last_rank, request.last = rank, run.primitive
        if request.function_run is not None:
            request.authors[run.primitive.writes[0]] = run.primitive


def _span(request: Request, run: PrimitiveRun, now_s: float) -> Span:
    primitive, start_s = run.primitive, request.arrival_s
    payload = run.payload if run.plan.is_splittable else None
    return Span(
        primitive.name,
        primitive.node,
        primitive.kind,
        run.engine,
        run.ready_s - start_s,
        run.sent_s - start_s,
        now_s - start_s,
        1 if payload is None else payload.rows,
        *reported(run.parts.values()),
    )
