"""The runtime and its lanes on one timeline."""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from heddle.core.commands import Command
from heddle.core.errors import Busy, InputError, InternalError
from heddle.core.frames import Frame
from heddle.core.ports import PassageSource, Tokenizer
from heddle.passes.runner import CYCLE_PASSES, CyclePass, PassRunner
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import Policy, topology_aware
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.simulator.checks.check import Check
from heddle.simulator.disk import Disk
from heddle.simulator.event_log import EventLog
from heddle.simulator.faults import (
    DISK,
    NO_FAULTS,
    SERVER,
    SERVER_FAULTS,
    Fault,
    FaultSource,
    Strike,
)
from heddle.simulator.port import SimulatedLane, SimulatedPort
from heddle.simulator.ticket import Ticket
from heddle.simulator.timeline import Timeline
from heddle.simulator.workload import Arrival

ACTIONS_MAX = 100_000  # a hundred times what simulations take: one that goes on is stuck
CRASH_AFTER_S_MAX = 0.2  # after the arrival at which the crash is drawn
SERVER_START_S = 0.2


def _never() -> FaultSource:
    return FaultSource(NO_FAULTS, random.Random(0), SERVER_FAULTS)


@dataclass(slots=True)
class World:
    """Everything that a simulation consists of.

    Args:
        lanes: the lanes to build.
        seed: where latencies, jitter and faults come from.
        policy: orders admission.
        disabled: passes to leave out.
        cycle_passes: those that look at the wavefront.
        limits: bounds of the runtime.
        tokenizer: encodes prompts.
        passages: turns chunk ids into passages.
        make_checks: makes what hears of everything that happens, for each life of the server.
        disk: outlives lanes and servers.
        crashes: draws after which arrivals the server crashes.
        speculates: whether prompts may be computed while their search still runs.

    Mutates: everything, in `run`.
    """

    lanes: Sequence[SimulatedLane]
    seed: int
    tokenizer: Tokenizer
    passages: PassageSource
    make_checks: Callable[[], Sequence[Check]] = tuple
    disk: Disk = field(default_factory=Disk)
    crashes: FaultSource = field(default_factory=_never)
    policy: Policy = topology_aware
    disabled: frozenset[str] = frozenset()
    cycle_passes: Sequence[CyclePass] = CYCLE_PASSES
    speculates: bool = False
    limits: RuntimeLimits = field(default_factory=RuntimeLimits)
    timeline: Timeline = field(default_factory=Timeline)
    log: EventLog = field(default_factory=EventLog)
    tickets: list[Ticket] = field(default_factory=list)
    ports: list[SimulatedPort] = field(init=False)
    runtime: Runtime = field(init=False)
    checks: Sequence[Check] = field(init=False)
    problems: list[str] = field(default_factory=list)
    _is_down: bool = False
    _lives: int = 0
    _faults_before: Counter[Fault] = field(default_factory=Counter)
    _strikes_before: set[Strike] = field(default_factory=set)
    _is_woken: bool = False
    _timer_at_s: float = float("inf")

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        """Start the server: lanes, runtime and checks, none of which remembers another life."""
        draws = random.Random(self.seed if not self._lives else f"{self.seed} {self._lives}")
        self.checks = self.make_checks()
        self.ports = [
            SimulatedPort(lane, self.timeline, random.Random(draws.random()), self, place)
            for lane, place in zip(self.lanes, self._places(), strict=True)
        ]
        for port in self.ports:
            port.subscribe(self._wake)
        self.runtime = Runtime(
            ports=self.ports,
            planner=RegionPlanner(
                PassRunner(self.timeline, cycle_passes=self.cycle_passes, disabled=self.disabled)
            ),
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
        """Return how often each fault struck, over all lanes, the disk and the server."""
        sources = (*(port.faults for port in self.ports), self.disk.faults, self.crashes)
        return sum((source.drawn for source in sources), self._faults_before)

    def strikes(self) -> set[Strike]:
        """Return where faults struck, and when."""
        sources = [(port.place, port.faults) for port in self.ports]
        sources += [(DISK, self.disk.faults), (SERVER, self.crashes)]
        return self._strikes_before | {(at, draw) for at, s in sources for draw in s.struck}

    def harm_done(self) -> float:
        """Return how many faults have struck that make tasks fail; inf = a lane is given up."""
        if any(port.is_given_up for port in self.ports):
            return math.inf
        return self.disk.faults.harm_done + sum(port.faults.harm_done for port in self.ports)

    def step(self, frame: Frame, ended_s: float) -> None:
        """Note a step of a lane; the runtime's tracer."""
        self.log.add(ended_s, f"{frame.lane} stepped {frame.seconds:.9f}")

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
        if self._is_down:
            ticket.is_cut_off = True
            self.log.add(now_s, "refused, for the server is down")
            return
        if self.crashes.next() is Fault.CRASH_SERVER:
            self.timeline.after(CRASH_AFTER_S_MAX * self.crashes.draws.random(), self._crash)
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
            cancel = partial(self._cancel, ticket.request_id, self._lives)
            self.timeline.after(arrival.cancel_after_s, cancel)
        self._wake()

    def _crash(self) -> None:
        """End the server and its lanes; only the disk is left."""
        if self._is_down:
            return
        now_s = self.timeline.now_s()
        self.log.add(now_s, "the server crashes")
        for ticket in self.tickets:
            is_open = ticket.request_id is not None and ticket.end is None
            ticket.is_cut_off = ticket.is_cut_off or is_open
        self.problems += self._problems_of_checks()
        lanes = sum((port.faults.drawn for port in self.ports), Counter[Fault]())
        self._faults_before += lanes
        self._strikes_before |= {(p.place, draw) for p in self.ports for draw in p.faults.struck}
        for port in self.ports:
            port.close()
        self._is_down, self._is_woken = True, False
        self.timeline.after(SERVER_START_S, self._start_again)

    def _start_again(self) -> None:
        self._is_down, self._timer_at_s = False, math.inf
        self._lives += 1
        self._start()

    def _places(self) -> list[str]:
        """Return the lanes' names in strikes: those of a later life of the server are others."""
        life = f"@{self._lives}" if self._lives else ""
        return [f"{lane.name}{life}" for lane in self.lanes]

    def _problems_of_checks(self) -> list[str]:
        return [problem for check in self.checks for problem in check.problems]

    def all_problems(self) -> list[str]:
        """Return what the checks have found wrong, in all lives of the server."""
        return self.problems + self._problems_of_checks()

    def _cancel(self, request_id: int, life: int) -> None:
        if life != self._lives or self._is_down:
            return
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
        self._is_woken = not self._is_down

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
