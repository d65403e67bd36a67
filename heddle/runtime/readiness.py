"""Which primitives of a request may start: regions open, results come in, waits run out."""

from collections import deque
from dataclasses import dataclass, field

from heddle.core.errors import InternalError, WorkflowError
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.graph.primitive import DecodeConfig
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.events import NodeFinished, Retrieved
from heddle.runtime.receipt import Span
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.request import PrimitiveRun, Request
from heddle.runtime.request_table import RequestTable
from heddle.runtime.values import as_passages
from heddle.workflow.nodes import GenerationNode, NodeId


@dataclass(slots=True)
class Readiness:
    """Counts what each primitive still waits for, and queues it when that is nothing.

    Args:
        planner: lowers and optimises regions.
        dispatcher: takes the ready primitives that need an engine.
        requests: where a request ends whose primitives are all complete.
        controls: the ready primitives that need no engine, oldest first.

    Mutates: the requests' runs, stores and receipts; `controls`.
    """

    planner: RegionPlanner
    dispatcher: Dispatcher
    requests: RequestTable
    controls: deque[tuple[Request, PrimitiveRun]] = field(default_factory=deque)

    def open_region(self, request: Request, entries: tuple[NodeId, ...], now_s: float) -> None:
        """Add the primitives that static edges reach from these nodes.

        Raises:
            WorkflowError: the request has run more nodes than its workflow allows.
        """
        optimize = request.optimizations is not Optimizations.OFF
        plan = self.planner.plan(request.workflow, entries, request.scope, optimize)
        request.scope = plan.scope
        request.steps += len(plan.nodes)
        if request.steps > request.workflow.max_steps:
            raise WorkflowError(
                f"workflow {request.workflow.name!r} ran {request.steps} nodes, its bound is "
                f"max_steps={request.workflow.max_steps}: check the callable edge that loops"
            )
        request.receipt.passes = tuple(dict.fromkeys((*request.receipt.passes, *plan.passes)))
        request.receipt.fallbacks.extend(plan.fallbacks)
        waits = dict(plan.waits)
        for key, readers in plan.readers.items():
            if key not in request.store:
                request.waiting_reads.setdefault(key, []).extend(readers)
                for reader in readers:
                    waits[reader] += 1
        request.regions += 1
        for name, primitive in plan.primitives.items():
            request.runs[name] = PrimitiveRun(primitive, plan, request.regions, waits[name])
        for name in plan.primitives:
            if waits[name] == 0:
                self._make_ready(request, request.runs[name], now_s)

    def complete(self, request: Request, run: PrimitiveRun, value: object, now_s: float) -> None:
        """Write a primitive's value, and start what waited for it."""
        primitive = run.primitive
        del request.runs[primitive.name]
        if run.engine:
            request.receipt.spans.append(_span(request, run, now_s))
        ready = [name for name in run.plan.after[primitive.name] if name in request.runs]
        if primitive.kind is not PrimitiveKind.PREFILLING:
            for key in primitive.writes:
                request.store.put(key, value)
                ready += request.waiting_reads.pop(key, [])
        _tell(request, run, value)
        for name in ready:
            waiting = request.runs[name]
            waiting.waits -= 1
            if waiting.waits == 0:
                self._make_ready(request, waiting, now_s)
        if request.is_idle and not request.is_ended:
            self.requests.finish(request, now_s)

    def _make_ready(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        if run.sent_s >= 0:
            return  # a decode that rode along with its prefill
        if run.primitive.kind.is_control:
            self.controls.append((request, run))
        elif isinstance(run.primitive.config, DecodeConfig):
            raise InternalError(f"{run.primitive.name!r} lost its prefill")
        else:
            self.dispatcher.queue(request, run, now_s)


def _tell(request: Request, run: PrimitiveRun, value: object) -> None:
    primitive = run.primitive
    if primitive.kind is PrimitiveKind.SEARCHING:
        request.sink(Retrieved(primitive.node, as_passages(value)))
    if primitive.name not in run.plan.last:
        return
    node = run.plan.last[primitive.name]
    if isinstance(request.workflow.nodes[node], GenerationNode):
        # Of generations that run side by side the order of the graph decides, not of time.
        is_output = node in request.workflow.outputs
        rank = (is_output, run.region, run.plan.nodes.index(node))
        if rank > request.last_rank:
            request.last_rank, request.last = rank, primitive
    request.sink(NodeFinished(primitive.node, run.turn))


def _span(request: Request, run: PrimitiveRun, now_s: float) -> Span:
    start_s = request.arrival_s
    return Span(
        name=run.primitive.name,
        node=run.primitive.node,
        kind=run.primitive.kind,
        engine=run.engine,
        ready_s=run.ready_s - start_s,
        sent_s=run.sent_s - start_s,
        done_s=now_s - start_s,
    )
