"""The runtime and its lanes on one timeline."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from heddle.core.errors import Busy, InternalError
from heddle.core.ports import Tokenizer
from heddle.passes.runner import PassRunner
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import Policy, topology_aware
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.simulator.cost_model_vector import SimulatedPassages
from heddle.simulator.event_log import EventLog
from heddle.simulator.faults import Fault
from heddle.simulator.port import SimulatedLane, SimulatedPort
from heddle.simulator.timeline import Timeline
from heddle.simulator.workload import Arrival

ACTIONS_MAX = 1_000_000  # a simulation that goes on for so long is not going to end


@dataclass(slots=True)
class Ticket:
    """What became of one arrival; `end` stays None where it was turned away as Busy."""

    arrival: Arrival
    request_id: int | None = None
    busy: Busy | None = None
    end: Answer | RequestFailed | None = None
    ended_s: float = 0.0
    events_after_end: int = 0

    @property
    def latency_s(self) -> float:
        """Time from arrival to end [s]."""
        return self.ended_s - self.arrival.at_s

    @property
    def end_name(self) -> str:
        """What it ended with, in a word."""
        if self.busy is not None:
            return "Busy"
        if isinstance(self.end, RequestFailed):
            return type(self.end.error).__name__
        return "lost" if self.end is None else "Answer"


@dataclass(slots=True)
class World:
    """Everything that a simulation consists of.

    Args:
        lanes: the lanes to build.
        seed: where latencies, jitter and faults come from.
        policy: orders admission.
        disabled: passes to leave out.
        limits: bounds of the runtime.
        tokenizer: encodes prompts.
        speculates: whether prompts may be computed while their search still runs.

    Mutates: everything, in `run`.
    """

    lanes: Sequence[SimulatedLane]
    seed: int
    tokenizer: Tokenizer
    policy: Policy = topology_aware
    disabled: frozenset[str] = frozenset()
    speculates: bool = False
    limits: RuntimeLimits = field(default_factory=RuntimeLimits)
    timeline: Timeline = field(default_factory=Timeline)
    log: EventLog = field(default_factory=EventLog)
    tickets: list[Ticket] = field(default_factory=list)
    ports: list[SimulatedPort] = field(init=False)
    runtime: Runtime = field(init=False)
    _is_woken: bool = False
    _timer_at_s: float = float("inf")

    def __post_init__(self) -> None:
        draws = random.Random(self.seed)
        self.ports = [
            SimulatedPort(lane, self.timeline, random.Random(draws.random())) for lane in self.lanes
        ]
        for port in self.ports:
            port.subscribe(self._wake)
        self.runtime = Runtime(
            ports=self.ports,
            planner=RegionPlanner(PassRunner(self.timeline, disabled=self.disabled)),
            policy=self.policy,
            limits=self.limits,
            tokenizer=self.tokenizer,
            passages=SimulatedPassages(),
            tracers=(self,),
            clock=self.timeline,
            speculates=self.speculates,
        )

    def run(self, arrivals: Sequence[Arrival]) -> None:
        """Let all requests arrive and run until nothing is planned any more.

        Raises:
            InternalError: it doesn't end.
        """
        for arrival in arrivals:
            ticket = Ticket(arrival)
            self.tickets.append(ticket)
            self.timeline.at(arrival.at_s, partial(self._submit, ticket))
        for _ in range(ACTIONS_MAX):
            if not self.timeline.step():
                return
            if self._is_woken:
                self._cycle()
        raise InternalError(f"the simulation goes on after {ACTIONS_MAX} actions")

    def faults_drawn(self) -> Counter[Fault]:
        """Return how often each fault struck, over all lanes."""
        return sum((port.faults.drawn for port in self.ports), Counter())

    def step(self, lane: str, ended_s: float, seconds: float) -> None:
        """Note a step of a lane; the runtime's tracer."""
        self.log.add(ended_s, f"{lane} stepped {seconds:.9f}")

    def _submit(self, ticket: Ticket) -> None:
        arrival = ticket.arrival
        now_s = self.timeline.now_s()
        try:
            ticket.request_id = self.runtime.submit(
                arrival.workflow,
                arrival.inputs,
                partial(self._hear, ticket),
                now_s=now_s,
                deadline_s=arrival.deadline_s,
                priority=arrival.priority,
                tenant=arrival.tenant,
                optimizations=arrival.optimizations,
                kv_reuse=arrival.kv_reuse,
            )
        except Busy as busy:
            ticket.busy = busy
            self.log.add(now_s, f"busy {busy}")
            return
        if arrival.cancel_after_s is not None:
            self.timeline.after(arrival.cancel_after_s, partial(self._cancel, ticket.request_id))
        self._wake()

    def _cancel(self, request_id: int) -> None:
        self.log.add(self.timeline.now_s(), f"cancel {request_id}")
        self.runtime.cancel(request_id, self.timeline.now_s())
        self._wake()

    def _hear(self, ticket: Ticket, event: RequestEvent) -> None:
        now_s = self.timeline.now_s()
        self.log.add(now_s, f"{ticket.arrival.workflow.name} {ticket.request_id} {event}")
        ticket.events_after_end += ticket.end is not None
        if isinstance(event, Answer | RequestFailed):
            ticket.end, ticket.ended_s = event, now_s

    def _wake(self) -> None:
        self._is_woken = True

    def _cycle(self) -> None:
        self._is_woken = False
        wake_at_s = self.runtime.cycle(self.timeline.now_s())
        if wake_at_s < self._timer_at_s:
            self._timer_at_s = wake_at_s
            self.timeline.at(wake_at_s, self._ring)

    def _ring(self) -> None:
        self._timer_at_s = float("inf")
        self._wake()
