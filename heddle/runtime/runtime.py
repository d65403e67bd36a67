"""The runtime: decides, never computes. One state machine for server and simulator.

It knows no thread and no loop: its driver calls `cycle(now_s)` whenever a frame has come in, a
request was submitted, or the time it asked for has passed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from heddle.core.errors import Cancelled, HeddleError, InputError
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.core.ports import (
    Clock,
    EnginePort,
    PassageSource,
    Timed,
    Tokenizer,
    Tracer,
    WorkPool,
)
from heddle.core.search_scope import Where
from heddle.core.tasks import Caller, Optimizations, Priority
from heddle.lowering.scope import initial_scope, input_key
from heddle.passes.draft_answers import DraftAnswers
from heddle.runtime.admission import Admission, RuntimeLimits
from heddle.runtime.answer_cache import AnswerCache
from heddle.runtime.answer_keeping import AnswerKeeping, ChangeLog
from heddle.runtime.answer_lookups import AnswerLookups
from heddle.runtime.batching import Policy
from heddle.runtime.clock import SystemClock
from heddle.runtime.controls import Controls
from heddle.runtime.counters import Counters
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.engine_scheduler import EngineScheduler
from heddle.runtime.frame_intake import FrameIntake
from heddle.runtime.function_calls import FunctionCalls
from heddle.runtime.lane import Lane
from heddle.runtime.pipeline import Pipeline
from heddle.runtime.quarantine import Quarantine
from heddle.runtime.readiness import Readiness
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.request import EventSink, Request
from heddle.runtime.request_table import RequestTable
from heddle.runtime.retries import Retries
from heddle.runtime.rounds import Rounds
from heddle.runtime.runs import ProgramRuns
from heddle.runtime.speculator import Speculator
from heddle.runtime.steering import Steering
from heddle.runtime.task_table import TaskTable
from heddle.workflow.workflow import Workflow


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
        tracers: hear of every step.
        clock: times callable edges; nothing is decided by it.
        speculates: whether prompts may be computed while their search still runs.
        busy_max: the share of time that an engine may work where prompts are computed ahead for it;
            None = none is.
        threads: tokenise long prompts; None = they are tokenised on this thread, as in simulations.
        preferred: names of ports that carry out their kinds alone, though others could.
        changes: the log of the corpus that searches follow; None = it isn't known.

    Mutates: everything below; only one thread may call it.
    Raises: ConfigError: an engine has fewer credits than one generation takes.
    """

    ports: Sequence[EnginePort]
    planner: RegionPlanner
    policy: Policy
    limits: RuntimeLimits = field(default_factory=RuntimeLimits)
    tokenizer: Tokenizer | None = None
    passages: PassageSource | None = None
    numerics: str = "batch-invariant"
    tracers: Sequence[Tracer] = ()
    clock: Clock = field(default_factory=SystemClock)
    speculates: bool = False
    busy_max: float | None = 1.0
    threads: WorkPool | None = None
    preferred: frozenset[str] = frozenset()
    changes: ChangeLog | None = None
    counters: Counters = field(default_factory=Counters)
    lanes: dict[str, Lane] = field(init=False)
    tasks: TaskTable = field(default_factory=TaskTable)
    requests: RequestTable = field(init=False)
    answers: AnswerCache = field(init=False)
    _dispatcher: Dispatcher = field(init=False)
    _readiness: Readiness = field(init=False)
    _intake: FrameIntake = field(init=False)
    _controls: Controls = field(init=False)
    _functions: FunctionCalls = field(init=False)
    _steering: Steering = field(init=False)
    _quarantine: Quarantine = field(init=False)
    _timed: Sequence[Timed] = field(init=False)
    _runs: ProgramRuns = field(default_factory=ProgramRuns)

    def __post_init__(self) -> None:
        in_flight: dict[int, Request] = {}
        self._timed = [port for port in self.ports if isinstance(port, Timed)]
        self.lanes = {
            port.name: Lane(port, EngineScheduler(self.policy), self.busy_max)
            for port in self.ports
        }
        self._dispatcher = Dispatcher(
            self.lanes,
            in_flight,
            self.tasks,
            self.tokenizer,
            self.speculates,
            self.threads,
            preferred=self.preferred,
        )
        self.answers = AnswerCache(self.limits.answers)
        keeping = AnswerKeeping(self.answers, self.changes)
        self.requests = RequestTable(
            in_flight,
            Admission(self.limits),
            self._dispatcher,
            self.counters,
            self.numerics,
            keeping,
        )
        self._readiness = Readiness(self.planner, self._dispatcher, self.requests)
        retries = Retries(
            self.limits.retries_max,
            self.tasks,
            self._dispatcher,
            self.requests.suspects,
            self.counters,
        )
        speculator = Speculator(self._dispatcher, self.requests, self.passages)
        self._intake = FrameIntake(
            self.tasks,
            self.requests,
            self._readiness,
            Pipeline(self._dispatcher),
            retries,
            speculator,
            self.passages,
            self.counters,
            self.tracers,
        )
        rounds = Rounds(self._readiness, self.tokenizer)
        self._functions = FunctionCalls(self._readiness)
        lookups = AnswerLookups(self._readiness, keeping)
        self._controls = Controls(
            self._readiness, self.requests, rounds, self._functions, lookups, self.clock
        )
        self._steering = Steering(self.planner.runner, self.lanes, self.requests, speculator)

        self._quarantine = Quarantine(self.requests.suspects, in_flight, self.tasks, self.lanes)

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
        kv_reuse: KvReuse = FULL_ATTENTION,
        where: Where = (),
        cache_salt: str | None = None,
        caller: Caller | None = None,
        awaits_end_alone: Callable[[], bool] = lambda: False,
    ) -> int:
        """Admit a request and return its id; its events go to `sink`.

        `inputs` has a value for every input of the workflow; `deadline_s` is the time from now
        until the answer is worthless [s]; `tenant` separates prefix caches and says, with
        `where`, which documents are found; `kv_reuse` is followed where `optimizations` is APPROX.
        Only prompts with the same `cache_salt` share their KV; None = all of the tenant's do.
        Requests of one `caller`'s run, where another program drives, are as old as its first.
        While `awaits_end_alone` is true, texts come in larger pieces.

        Raises:
            InputError: an input is missing, unknown or too long, the question is empty, or it has
                ended lanes.
            Busy: too many requests are in flight; nothing was started.
            ConfigError: no engine carries out a primitive the workflow needs.
        """
        self.requests.admission.check_inputs(workflow, inputs)
        self.requests.suspects.check(workflow, inputs, tenant, now_s)
        self._dispatcher.check(workflow)
        patience_s = self.limits.deadline_s if deadline_s is None else deadline_s
        if not patience_s > 0:
            raise InputError(f"deadline_s must be positive, got {patience_s}")
        request = Request(
            id=self.requests.next_id,
            workflow=workflow,
            scope=initial_scope(inputs),
            arrival_s=now_s,
            deadline_s=now_s + patience_s,
            priority=priority,
            tenant=tenant,
            optimizations=optimizations,
            sink=sink,
            kv_reuse=kv_reuse,
            where=where,
            cache_salt=tenant if cache_salt is None else cache_salt,
            inputs=inputs,
            caller=caller,
            awaits_end_alone=awaits_end_alone,
        )
        for slot, value in inputs.items():
            request.store.put(input_key(slot), value)
        self.requests.enter(request)
        if caller is not None:  # of those let in: the id of one that is refused is another's
            self._join_run(request, caller, now_s)
        if workflow.function is not None:
            self.requests.guard(request, now_s, self._functions.start, request, now_s)
        else:
            start = self._readiness.open_region
            self.requests.guard(request, now_s, start, request, workflow.entries, now_s)
        return request.id

    def _join_run(self, request: Request, caller: Caller, now_s: float) -> None:
        run = self._runs.joined(request.tenant, caller, request.id, now_s)
        request.first_request, request.run_since_s = run.first_request, run.since_s
        request.receipt.run, request.receipt.caller = caller.run, caller.node
        may_draft = DraftAnswers().name not in self.planner.runner.disabled
        if may_draft and request.optimizations is not Optimizations.OFF:
            request.run_texts = run.texts

    def cancel(self, request_id: int, now_s: float) -> None:
        """Take a request back; unknown and ended ones are left alone."""
        if request_id in self.requests.open:
            error = Cancelled("cancelled by the caller")
            self.requests.fail(self.requests.open[request_id], error, now_s)

    def cancel_run(self, tenant: str, run: str, now_s: float) -> None:
        """Take back what is in flight for a run of another program; there may be nothing."""
        for request in list(self.requests.open.values()):
            caller = request.caller
            if caller is not None and (request.tenant, caller.run) == (tenant, run):
                self.cancel(request.id, now_s)

    def fail_all(self, error: HeddleError, now_s: float) -> None:
        """End every request with an error: the server closes, or a cycle itself has failed."""
        for request in list(self.requests.open.values()):
            self.requests.fail(request, error, now_s)

    def cycle(self, now_s: float) -> float:
        """Fold in what has happened, decide, send; return when to come back at the latest [s]."""
        for lane in self.lanes.values():
            self._intake.read(lane, now_s)
        self.requests.expire(now_s)
        self.requests.refuse_suspects(now_s)
        for prompt in self._dispatcher.long_prompts.finished():
            self.requests.guard(prompt.request, now_s, self._dispatcher.take, prompt, now_s)
        self._controls.run(now_s)
        may_send = self._quarantine.gate()
        if may_send is None:  # what is computed ahead doesn't wait its turn
            self._steering.run(now_s)
        else:  # looks hold their requests, which may end meanwhile
            self._steering.speculator.forget_looks()
        self._dispatcher.send_waiting(now_s, may_send)
        while self._dispatcher.controls:  # texts that had become whole while they waited
            self._controls.run(now_s)
            self._dispatcher.send_waiting(now_s, self._quarantine.gate())
        return min([self.requests.next_deadline_s, *(port.due_s for port in self._timed)])
