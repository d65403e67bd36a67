"""The runtime and its lanes on one timeline."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from heddle.core.commands import Command
from heddle.core.errors import Busy, InputError, InternalError
from heddle.core.frames import Frame
from heddle.core.ports import PassageSource, Tokenizer
from heddle.passes.runner import PassRunner
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import Policy, topology_aware
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.simulator.checks.check import Check
from heddle.simulator.event_log import EventLog
from heddle.simulator.faults import HARMFUL, Fault
from heddle.simulator.port import SimulatedLane, SimulatedPort
from heddle.simulator.ticket import Ticket
from heddle.simulator.timeline import Timeline
from heddle.simulator.workload import Arrival

ACTIONS_MAX = 1_000_000  # a simulation that goes on for so long is not going to end


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
        passages: turns chunk ids into passages.
        checks: hear of everything that happens.
        speculates: whether prompts may be computed while their search still runs.

    Mutates: everything, in `run`.
    """

    lanes: Sequence[SimulatedLane]
    seed: int
    tokenizer: Tokenizer
    passages: PassageSource
    checks: Sequence[Check] = ()
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
            SimulatedPort(lane, self.timeline, random.Random(draws.random()), self)
            for lane in self.lanes
        ]
        for port in self.ports:
            port.subscribe(self._wake)
        self.runtime = Runtime(
            ports=self.ports,
            planner=RegionPlanner(PassRunner(self.timeline, disabled=self.disabled)),
            policy=self.policy,
            limits=self.limits,
            tokenizer=self.tokenizer,
            passages=self.passages,
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

    def harm_done(self) -> int:
        """Return how many faults have struck that make tasks fail."""
        return sum(port.faults.drawn[fault] for port in self.ports for fault in HARMFUL)

    def step(self, lane: str, ended_s: float, seconds: float) -> None:
        """Note a step of a lane; the runtime's tracer."""
        self.log.add(ended_s, f"{lane} stepped {seconds:.9f}")

    def sent(self, lane: str, command: Command) -> None:
        """Hear of a command that the runtime sends; the ports' watcher."""
        for check in self.checks:
            check.sent(lane, command, self.timeline.now_s())

    def stepped(self, lane: str, frame: Frame) -> None:
        """Hear what a step has made that begins now; the ports' watcher."""
        for check in self.checks:
            check.stepped(lane, frame, self.timeline.now_s())

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
                where=arrival.where,
            )
        except Busy as busy:
            ticket.busy = busy
            self.log.add(now_s, f"busy {busy}")
            return
        except InputError as error:  # it was under way at two deaths of lanes
            ticket.end, ticket.ended_s = RequestFailed(error), now_s
            self.log.add(now_s, f"refused {error}")
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
        for check in self.checks:
            check.heard(ticket, event, now_s)
        if isinstance(event, Answer | RequestFailed):
            ticket.end, ticket.ended_s = event, now_s

    def _wake(self) -> None:
        self._is_woken = True

    def _cycle(self) -> None:
        self._is_woken = False
        wake_at_s = self.runtime.cycle(self.timeline.now_s())
        for check in self.checks:
            check.cycled(self.runtime.counters, self.harm_done, self.timeline.now_s())
        if wake_at_s < self._timer_at_s:
            self._timer_at_s = wake_at_s
            self.timeline.at(wake_at_s, self._ring)

    def _ring(self) -> None:
        self._timer_at_s = float("inf")
        self._wake()
