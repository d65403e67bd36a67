"""The runtime: decides, never computes. One state machine for server and simulator.

It knows no thread, no loop and no clock: whoever drives it calls `cycle(now_s)` whenever a
frame has come in, a request was submitted, or the time it asked for has passed.
"""

import heapq
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVarTuple

from heddle.core.commands import Admit, Cancel, Release, Steer
from heddle.core.errors import (
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    EngineError,
    HeddleError,
    InputError,
    InternalError,
    WorkflowError,
)
from heddle.core.frames import Done, Event, Failed, Frame, Progress
from heddle.core.passages import Passage
from heddle.core.payloads import DecodePayload, Payload, split_rows
from heddle.core.ports import EnginePort, PassageSource, Tokenizer, Tracer
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle, Prefilled, Result
from heddle.core.tasks import Identity, Optimizations, Priority, Task
from heddle.graph.primitive import CollectConfig, ConditionConfig, DecodeConfig
from heddle.lowering.scope import initial_scope, input_key
from heddle.passes.cycle_view import CycleView
from heddle.runtime.admission import Admission, RuntimeLimits
from heddle.runtime.batching import Pending, Policy, Take
from heddle.runtime.conditions import choose_targets
from heddle.runtime.engine_scheduler import EngineScheduler
from heddle.runtime.events import (
    Answer,
    NodeFinished,
    NodeStarted,
    RequestFailed,
    Retrieved,
    TokenDelta,
)
from heddle.runtime.folding import fold
from heddle.runtime.lane import Lane, Lease, TaskRun
from heddle.runtime.payload_builder import build_payload
from heddle.runtime.receipt import Span
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.request import EventSink, PrimitiveRun, Request
from heddle.runtime.supervision import LANE_LOST
from heddle.runtime.values import as_passages, as_text, resolve, unique_passages
from heddle.workflow.nodes import GenerationNode, Node, NodeId, RetrievalNode, ToolNode
from heddle.workflow.workflow import Workflow

log = logging.getLogger(__name__)
Args = TypeVarTuple("Args")

PAIR_CREDITS = 2
# Tuples, because an enum's hash is a call into Python and comparing a few members is not.
SPLITTABLE = (PrimitiveKind.EMBEDDING, PrimitiveKind.SEARCHING)
RETRYABLE = (PrimitiveKind.EMBEDDING, PrimitiveKind.SEARCHING, PrimitiveKind.RERANKING)
STARTING = (PrimitiveKind.EMBEDDING, PrimitiveKind.PREFILLING, PrimitiveKind.TOOL)


@dataclass(slots=True)
class Counters:
    """What the runtime has seen, for health and tests."""

    frames: int = 0
    frames_dropped: int = 0
    events_dropped: int = 0
    retries: int = 0
    finished: int = 0
    failed: int = 0


@dataclass(slots=True)
class Runtime:
    """Serves requests on engines.

    Args:
        ports: the engines; together they carry out every kind the workflows need.
        planner: lowers and optimises regions.
        policy: orders admission to each engine.
        tokenizer: encodes prompts; None where no port generates.
        passages: turns chunk ids into passages; None in simulations.
        numerics: what every receipt says about batch dependence.
        tracer: hears of every step.

    Mutates: everything below; only one thread may call it.
    """

    ports: Sequence[EnginePort]
    planner: RegionPlanner
    policy: Policy
    limits: RuntimeLimits = field(default_factory=RuntimeLimits)
    tokenizer: Tokenizer | None = None
    passages: PassageSource | None = None
    numerics: str = "batch-invariant"
    tracer: Tracer | None = None
    counters: Counters = field(default_factory=Counters)
    admission: Admission = field(init=False)
    lanes: dict[str, Lane] = field(init=False)
    requests: dict[int, Request] = field(default_factory=dict)
    tasks: dict[int, TaskRun] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    _able: dict[PrimitiveKind, list[Lane]] = field(init=False)
    _controls: deque[tuple[Request, PrimitiveRun]] = field(default_factory=deque)
    _deadlines: list[tuple[float, int]] = field(default_factory=list)
    _next_request: int = 1
    _next_task: int = 1

    def __post_init__(self) -> None:
        for port in self.ports:
            if PrimitiveKind.PREFILLING in port.kinds and port.credits.total < PAIR_CREDITS:
                raise ConfigError(
                    f"engine {port.name} has {port.credits.total} credit(s); a generation takes "
                    f"{PAIR_CREDITS} (its prefill and its decode): give it more"
                )
        self.admission = Admission(self.limits)
        self.lanes = {p.name: Lane(p, EngineScheduler(self.policy)) for p in self.ports}
        self._able = {}
        for lane in self.lanes.values():
            for kind in lane.port.kinds:
                self._able.setdefault(kind, []).append(lane)

    # -- the outside: submit, cancel, cycle ---------------------------------------------------

    def submit(
        self,
        workflow: Workflow,
        inputs: Mapping[str, object],
        sink: EventSink,
        *,
        now_s: float,
        deadline_s: float | None = None,
        priority: Priority = Priority.NORMAL,
        tenant: str = "",
        optimizations: Optimizations = Optimizations.EXACT,
    ) -> int:
        """Admit a request and return its id; its events go to `sink`.

        `inputs` has a value for every input of the workflow; `deadline_s` is the time from now
        until the answer is worthless [s]; `tenant` separates prefix caches.

        Raises:
            InputError: an input is missing, unknown, empty or too long.
            Busy: too many requests are in flight; nothing was started.
            ConfigError: no engine carries out a primitive the workflow needs.
        """
        self._check_inputs(workflow, inputs)
        self._check_engines(workflow)
        patience_s = self.limits.deadline_s if deadline_s is None else deadline_s
        if not patience_s > 0:
            raise InputError(f"deadline_s must be positive, got {patience_s}")
        self.admission.enter(priority is Priority.BULK)
        request = Request(
            id=self._next_request,
            workflow=workflow,
            scope=initial_scope(inputs),
            arrival_s=now_s,
            deadline_s=now_s + patience_s,
            priority=priority,
            tenant=tenant,
            optimizations=optimizations,
            sink=sink,
        )
        self._next_request += 1
        self.requests[request.id] = request
        heapq.heappush(self._deadlines, (request.deadline_s, request.id))
        for slot, value in inputs.items():
            request.store.put(input_key(slot), value)
        self._guard(request, now_s, self._open_region, request, workflow.entries, now_s)
        return request.id

    def cancel(self, request_id: int, now_s: float) -> None:
        """Take a request back; unknown and ended ones are left alone."""
        if request_id in self.requests:
            self._fail(self.requests[request_id], Cancelled("cancelled by the caller"), now_s)

    def fail_all(self, error: HeddleError, now_s: float) -> None:
        """End every request with an error: what is left when a cycle itself has failed."""
        for request in list(self.requests.values()):
            self._fail(request, error, now_s)

    def cycle(self, now_s: float) -> float:
        """Fold in what has happened, decide, send; return when to come back at the latest [s].

        The order of work: frames, deadlines, control primitives, cycle passes, admission.
        """
        for lane in self.lanes.values():
            for frame in lane.port.frames():
                self._fold_frame(lane, frame, now_s)
        self._expire(now_s)
        self._run_controls(now_s)
        self._run_cycle_passes(now_s)
        for lane in self.lanes.values():
            if lane.scheduler.pending:
                self._dispatch(lane, now_s)
        # A payload that can't be built fails its request; nothing else can be left to do.
        return self._deadlines[0][0] if self._deadlines else float("inf")

    # -- admission ----------------------------------------------------------------------------

    def _check_inputs(self, workflow: Workflow, inputs: Mapping[str, object]) -> None:
        if missing := workflow.inputs - set(inputs):
            raise InputError(f"workflow {workflow.name!r} needs {', '.join(sorted(missing))}")
        if unknown := set(inputs) - workflow.inputs:
            raise InputError(
                f"workflow {workflow.name!r} has no input {', '.join(sorted(unknown))}; "
                f"it takes {', '.join(sorted(workflow.inputs))}"
            )
        for slot, value in inputs.items():
            self.admission.check_text(slot, value)

    def _check_engines(self, workflow: Workflow) -> None:
        for node in workflow.nodes.values():
            for needed in _needed_kinds(node):
                if needed not in self._able:
                    raise ConfigError(
                        f"node {node.id!r} needs {needed.value}, and no engine here does that"
                    )

    # -- regions and readiness ----------------------------------------------------------------

    def _open_region(self, request: Request, entries: tuple[NodeId, ...], now_s: float) -> None:
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

    def _make_ready(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        if run.sent_s >= 0:
            return  # a decode that rode along with its prefill
        run.ready_s = now_s
        primitive = run.primitive
        if primitive.kind.is_control:
            self._controls.append((request, run))
            return
        if isinstance(primitive.config, DecodeConfig):
            raise InternalError(f"{primitive.name!r} lost its prefill")
        if run.payload is None:
            built = build_payload(primitive, request.store, self.tokenizer, request.tenant)
            run.payload = built.payload
            if built.shown:
                request.shown[primitive.node] = built.shown
        self._enqueue(request, run, now_s)

    def _enqueue(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        assert run.payload is not None, f"{run.primitive.name!r} is queued without a payload"
        kind = run.primitive.kind
        lane = self._lane_for(kind)
        is_splittable = kind in SPLITTABLE
        rows = run.payload.rows - run.rows_sent if is_splittable else 1
        # A prefill takes a credit for its decode too: the pair must never wait half sent.
        rows += run.primitive.name in run.plan.rider
        lane.scheduler.add(
            Pending(
                request_id=request.id,
                primitive=run.primitive.name,
                depth=run.plan.depth[run.primitive.name],
                rows=rows,
                arrival_s=request.arrival_s,
                priority=request.priority.value,
                is_splittable=is_splittable,
            )
        )
        run.ready_s = now_s

    def _lane_for(self, kind: PrimitiveKind) -> Lane:
        able = self._able[kind]
        if len(able) == 1:
            return able[0]
        return max(able, key=lambda lane: lane.port.credits.free - len(lane.scheduler.pending))

    # -- sending ------------------------------------------------------------------------------

    def _dispatch(self, lane: Lane, now_s: float) -> None:
        takes = lane.scheduler.decide(lane.port.credits.free, lane.in_flight)
        for take in takes:
            request = self.requests.get(take.request_id)
            if request is not None:
                self._send_take(lane, request, take, now_s)

    def _send_take(self, lane: Lane, request: Request, take: Take, now_s: float) -> None:
        run = request.runs[take.primitive]
        assert run.payload is not None, f"{take.primitive!r} is sent without a payload"
        if run.sent_s < 0:
            run.sent_s = now_s
            self._tell_started(request, run)
        run.engine = lane.port.name
        rider = run.plan.rider.get(take.primitive)
        if rider is not None:
            self._send_pair(lane, request, run, request.runs[rider], now_s)
            return
        first_row = run.rows_sent
        rows = take.rows if run.primitive.kind in SPLITTABLE else run.payload.rows
        run.rows_sent += rows
        part = split_rows(run.payload, first_row, first_row + rows)
        self._send(lane, request, run, part, take.rows, first_row, now_s)

    def _send_pair(
        self,
        lane: Lane,
        request: Request,
        prefill: PrimitiveRun,
        decode: PrimitiveRun,
        now_s: float,
    ) -> None:
        assert prefill.payload is not None, "a prefill is sent without a payload"
        config = decode.primitive.config
        assert isinstance(config, DecodeConfig), f"{decode.primitive.name!r} rides as a decode"
        prefill_task = self._send(lane, request, prefill, prefill.payload, 1, 0, now_s)
        decode.payload = DecodePayload(prefill_task, config.sampling)
        decode.ready_s = decode.sent_s = now_s
        decode.engine = lane.port.name
        decode_task = self._send(lane, request, decode, decode.payload, 1, 0, now_s)
        handle = KvHandle(lane.port.name, lane.port.epoch, prefill_task)
        self.leases[prefill_task] = Lease(handle, lane, {prefill_task, decode_task})
        self.tasks[prefill_task].prefill = self.tasks[decode_task].prefill = prefill_task

    def _send(
        self,
        lane: Lane,
        request: Request,
        run: PrimitiveRun,
        payload: Payload,
        credit_rows: int,
        first_row: int,
        now_s: float,
    ) -> int:
        task_id = self._next_task
        self._next_task += 1
        identity = Identity(
            request_id=request.id,
            node=run.primitive.node,
            depth=run.plan.depth[run.primitive.name],
            tenant=request.tenant,
            priority=request.priority,
        )
        task = Task(
            task_id,
            run.primitive.kind,
            identity,
            payload,
            request.deadline_s - now_s,
            request.optimizations,
        )
        lane.port.credits.take(credit_rows)
        lane.in_flight += 1
        request.tasks.add(task_id)
        self.tasks[task_id] = TaskRun(
            request, run, lane, lane.port.epoch, credit_rows, first_row, now_s
        )
        report = 1 if run.primitive.kind is PrimitiveKind.DECODING else 0
        lane.port.send(Admit(task, report))
        return task_id

    def _tell_started(self, request: Request, run: PrimitiveRun) -> None:
        # A generation that is sent once more has been told of before.
        if run.primitive.kind in STARTING and not run.retries:
            turn = int(run.primitive.name.rsplit("@", 1)[1])
            request.sink(NodeStarted(run.primitive.node, turn))

    # -- frames -------------------------------------------------------------------------------

    def _fold_frame(self, lane: Lane, frame: Frame, now_s: float) -> None:
        self.counters.frames += 1
        if frame.number and not self._is_next(lane, frame, now_s):
            self.counters.frames_dropped += 1
            return
        lane.last = frame
        if self.tracer is not None:
            self.tracer.step(frame.lane, now_s, frame.seconds)
        for event in frame.events:
            task = self.tasks.get(event.task_id)
            if task is None or task.lane is not lane:
                self.counters.events_dropped += 1
            elif isinstance(event, Progress):
                self._fold_progress(task, event)
            else:
                self._end_task(task, event, now_s)

    def _is_next(self, lane: Lane, frame: Frame, now_s: float) -> bool:
        """Whether a numbered frame is new; what a lost one may have held is given up loudly."""
        epoch, number = lane.seen
        if (frame.epoch, frame.number) <= (epoch, number):
            return False
        lane.seen = frame.epoch, frame.number
        if frame.epoch != epoch:
            self._give_up_tasks(lane, frame.epoch - 1, now_s)
            number = 0
        if frame.number != number + 1:
            log.error("lane %s lost frames %d..%d", frame.lane, number + 1, frame.number - 1)
            self._give_up_tasks(lane, frame.epoch, now_s)
        return True

    def _give_up_tasks(self, lane: Lane, epoch_max: int, now_s: float) -> None:
        """Fail what was sent to a lane up to an epoch: its answer may be among lost frames."""
        message = f"{LANE_LOST} frames of lane {lane.port.name} were lost on the way"
        for task_id, task in sorted(self.tasks.items()):
            if task.lane is lane and task.epoch <= epoch_max:
                lane.port.send(Cancel(task_id))
                self._end_task(task, Failed(task_id, message), now_s)

    def _fold_progress(self, task: TaskRun, event: Progress) -> None:
        if task.request.is_ended or task.is_detached or not event.text:
            return
        task.has_emitted = True
        task.request.sink(TokenDelta(task.run.primitive.node, event.text))

    def _end_task(self, task: TaskRun, event: Event, now_s: float) -> None:
        """A task's one terminal event: credits come back here and nowhere else."""
        del self.tasks[event.task_id]
        task.request.tasks.discard(event.task_id)
        task.lane.port.credits.give_back(task.rows)
        task.lane.in_flight -= 1
        self._close_lease(task, event.task_id)
        if task.request.is_ended or task.is_detached:
            return
        self._guard(task.request, now_s, self._use, task, event, now_s)

    def _close_lease(self, task: TaskRun, task_id: int) -> None:
        lease = self.leases.get(task.prefill) if task.prefill is not None else None
        if lease is None:
            return
        lease.tasks.discard(task_id)
        if not lease.tasks:
            del self.leases[lease.handle.id]
            lease.lane.port.send(Release(lease.handle))

    def _use(self, task: TaskRun, event: Event, now_s: float) -> None:
        if isinstance(event, Done):
            self._use_result(task, event.result, now_s)
        elif isinstance(event, Failed):
            self._use_failure(task, event, now_s)
        else:
            raise EngineError(
                f"gave task {event.task_id} up unasked",
                engine=task.lane.port.name,
                request_ids=(task.request.id,),
            )

    def _use_result(self, task: TaskRun, result: Result, now_s: float) -> None:
        request, run = task.request, task.run
        if isinstance(result, Prefilled):
            request.receipt.prompt_tokens += result.tokens
            request.receipt.prompt_tokens_reused += result.tokens_reused
            request.receipt.preemptions += result.preemptions
            self._complete(request, run, None, now_s)
            return
        if run.primitive.kind is PrimitiveKind.SEARCHING:
            task.lane.learn_stage(now_s - task.sent_s)
        assert run.payload is not None, f"{run.primitive.name!r} was answered before it was sent"
        run.parts[task.first_row] = result
        run.rows_done += task.rows if run.primitive.kind in SPLITTABLE else run.payload.rows
        if run.rows_done == run.payload.rows:
            value = fold(run.primitive, run.parts, self.passages, request.receipt)
            self._complete(request, run, value, now_s)

    def _use_failure(self, task: TaskRun, event: Failed, now_s: float) -> None:
        request, run = task.request, task.run
        if event.is_input:
            raise InputError(f"node {run.primitive.node!r}: {event.message}")
        may_retry = run.retries < self.limits.retries_max and now_s < request.deadline_s
        if may_retry and run.primitive.kind in RETRYABLE:
            self._retry_rows(task, event, now_s)
        elif may_retry and task.prefill is not None and not task.has_emitted:
            self._retry_generation(task, event, now_s)
        else:
            raise EngineError(
                f"{run.primitive.name} failed: {event.message}",
                engine=task.lane.port.name,
                request_ids=(request.id,),
            )

    def _count_retry(self, task: TaskRun, event: Failed) -> None:
        task.run.retries += 1
        task.request.receipt.retries += 1
        self.counters.retries += 1
        note = f"{task.run.primitive.name} retried after: {event.message}"
        task.request.receipt.fallbacks.append(note)
        log.warning("request %d: %s", task.request.id, note)

    def _retry_rows(self, task: TaskRun, event: Failed, now_s: float) -> None:
        """Send the whole primitive again: rows that were answered before are asked for again."""
        self._count_retry(task, event)
        self._detach(task.request, task.run)
        task.run.rows_sent = task.run.rows_done = 0
        task.run.parts.clear()
        task.lane.scheduler.pending.pop((task.request.id, task.run.primitive.name), None)
        self._enqueue(task.request, task.run, now_s)

    def _retry_generation(self, task: TaskRun, event: Failed, now_s: float) -> None:
        """Prefill and decode once more, while nobody has seen a token."""
        request, plan = task.request, task.run.plan
        prefill_name = next(p for p, d in plan.rider.items() if task.run.primitive.name in (p, d))
        decode = request.runs[plan.rider[prefill_name]]
        self._count_retry(task, event)
        self._detach(request, decode)
        prefill = request.runs.get(prefill_name)
        if prefill is None:  # the prefill had ended well; its KV is gone with the decode
            prefill = PrimitiveRun(plan.primitives[prefill_name], plan, decode.region, 0)
            built = build_payload(prefill.primitive, request.store, self.tokenizer, request.tenant)
            prefill.payload = built.payload
            request.runs[prefill_name] = prefill
        self._detach(request, prefill)
        prefill.retries = decode.retries = max(prefill.retries, decode.retries, 1)
        prefill.sent_s = decode.sent_s = -1.0
        decode.waits = 1
        self._enqueue(request, prefill, now_s)

    def _detach(self, request: Request, run: PrimitiveRun) -> None:
        """Cancel what is in flight for a run; its events will only return credits."""
        for task_id in sorted(request.tasks):
            task = self.tasks[task_id]
            if task.run is run:
                task.is_detached = True
                task.lane.port.send(Cancel(task_id))

    # -- completion ---------------------------------------------------------------------------

    def _complete(self, request: Request, run: PrimitiveRun, value: object, now_s: float) -> None:
        primitive = run.primitive
        del request.runs[primitive.name]
        if run.engine:
            request.receipt.spans.append(_span(request, run, now_s))
        ready = [name for name in run.plan.after[primitive.name] if name in request.runs]
        if primitive.kind is not PrimitiveKind.PREFILLING:
            for key in primitive.writes:
                request.store.put(key, value)
                ready += request.waiting_reads.pop(key, [])
        self._tell_complete(request, run, value)
        for name in ready:
            waiting = request.runs[name]
            waiting.waits -= 1
            if waiting.waits == 0:
                self._make_ready(request, waiting, now_s)
        if request.is_idle and not request.is_ended:
            self._finish(request, now_s)

    def _tell_complete(self, request: Request, run: PrimitiveRun, value: object) -> None:
        primitive = run.primitive
        if primitive.kind is PrimitiveKind.SEARCHING:
            request.sink(Retrieved(primitive.node, as_passages(value)))
        if primitive.name not in run.plan.last:
            return
        node = run.plan.last[primitive.name]
        turn = int(primitive.name.rsplit("@", 1)[1])
        if isinstance(request.workflow.nodes[node], GenerationNode):
            # Of generations that run side by side the order of the graph decides, not of time.
            is_output = node in request.workflow.outputs
            rank = (is_output, run.region, run.plan.nodes.index(node))
            if rank > request.last_rank:
                request.last_rank, request.last = rank, primitive
        request.sink(NodeFinished(primitive.node, turn))

    def _finish(self, request: Request, now_s: float) -> None:
        keys = dict(request.scope.keys)
        slots = {slot: request.store.get(key) for slot, key in keys.items()}
        last = request.last
        text = as_text(request.store.get(last.writes[0])) if last else ""
        passages = _passages(request, slots)
        receipt = request.receipt.close(
            request.optimizations, now_s - request.arrival_s, self.numerics
        )
        self.counters.finished += 1
        self._end(request, now_s)
        request.sink(Answer(text, passages, slots, receipt))

    def _fail(self, request: Request, error: HeddleError, now_s: float) -> None:
        if request.is_ended:
            return
        self.counters.failed += 1
        self._end(request, now_s)
        request.sink(RequestFailed(error))

    def _end(self, request: Request, now_s: float) -> None:
        request.is_ended = True
        del self.requests[request.id]
        for lane in self.lanes.values():
            lane.scheduler.drop_request(request.id)
        for task_id in sorted(request.tasks):
            self.tasks[task_id].lane.port.send(Cancel(task_id))
        request.runs.clear()
        self.admission.leave(request.priority is Priority.BULK, now_s)

    def _guard(
        self, request: Request, now_s: float, work: Callable[[*Args], None], *args: *Args
    ) -> None:
        """Whatever goes wrong for one request ends that request, and no other."""
        try:
            work(*args)
        except HeddleError as error:
            self._fail(request, error, now_s)
        except Exception as error:
            log.exception("request %d broke an invariant", request.id)
            self._fail(request, InternalError(f"{type(error).__name__}: {error}"), now_s)

    # -- deadlines, control primitives, cycle passes ------------------------------------------

    def _expire(self, now_s: float) -> None:
        while self._deadlines:
            deadline_s, request_id = self._deadlines[0]
            is_over = request_id not in self.requests
            if not is_over and deadline_s > now_s:
                return
            heapq.heappop(self._deadlines)
            if not is_over:
                request = self.requests[request_id]
                patience_s = request.deadline_s - request.arrival_s
                kinds = ", ".join(sorted(kind.value for kind in request.kinds_open()))
                error = DeadlineExceeded(f"no answer within {patience_s:.1f} s; still in: {kinds}")
                self._fail(request, error, now_s)

    def _run_controls(self, now_s: float) -> None:
        while self._controls:
            request, run = self._controls.popleft()
            if not request.is_ended:
                self._guard(request, now_s, self._control, request, run, now_s)

    def _control(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        config = run.primitive.config
        if isinstance(config, CollectConfig):
            groups = [
                as_passages(resolve(part, request.store, run.primitive.node))
                for part in config.parts
            ]
            self._complete(request, run, unique_passages(groups), now_s)
            return
        assert isinstance(config, ConditionConfig), f"{run.primitive.name!r} is no control"
        targets = choose_targets(config, run.primitive.node, request.workflow, request.store)
        if targets:
            self._open_region(request, targets, now_s)
        self._complete(request, run, None, now_s)

    def _run_cycle_passes(self, now_s: float) -> None:
        searching = self._able.get(PrimitiveKind.SEARCHING, ())
        if not any(lane.in_flight or lane.scheduler.pending for lane in searching):
            return
        wavefront = tuple(
            Identity(p.request_id, p.primitive, p.depth)
            for lane in self.lanes.values()
            for p in lane.scheduler.pending.values()
        )
        view = CycleView(now_s, wavefront, {n: lane.view() for n, lane in self.lanes.items()})
        for edit in self.planner.runner.look(view):
            lane = self.lanes[edit.engine]
            lane.steered = lane.port.epoch, edit.budget_s
            lane.port.send(Steer(budget_s=edit.budget_s))


def _needed_kinds(node: Node) -> tuple[PrimitiveKind, ...]:
    if isinstance(node, GenerationNode):
        return (PrimitiveKind.PREFILLING, PrimitiveKind.DECODING)
    if isinstance(node, RetrievalNode):
        return (PrimitiveKind.EMBEDDING, PrimitiveKind.SEARCHING)
    if isinstance(node, ToolNode):
        return (PrimitiveKind.TOOL,)
    return (PrimitiveKind.EMBEDDING, PrimitiveKind.INGESTION)


def _passages(request: Request, slots: Mapping[str, object]) -> tuple[Passage, ...]:
    """Return what an answer rests on: what its own prompt showed, else any prompt, else slots."""
    own = request.shown.get(request.last.node, ()) if request.last else ()
    if own:
        return own
    shown = [request.shown.get(str(node), ()) for node in request.workflow.nodes]
    return unique_passages(shown if any(shown) else map(as_passages, slots.values()))


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
