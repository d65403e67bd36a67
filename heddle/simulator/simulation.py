"""One simulation from one seed: drawn, run, checked."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from heddle.core.call_order import CallOrder
from heddle.core.errors import InternalError
from heddle.core.ports import SteppedEngine
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.engines.embedding.engine import EmbeddingEngine
from heddle.engines.llm.engine import LlmEngine, LlmSpec
from heddle.engines.llm.scheduler import SchedulerLimits
from heddle.engines.vector.ivf.early_stop.finality import Finality
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.passes.runner import CYCLE_PASSES, GRAPH_PASSES, CyclePass
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import FIRST_SERVED, POLICIES
from heddle.simulator import cost_model_embedding, cost_model_llm, cost_model_vector
from heddle.simulator.checks.blame import BlameCheck
from heddle.simulator.checks.check import Check
from heddle.simulator.checks.ends import EndCheck
from heddle.simulator.checks.leftovers import LeftoverCheck
from heddle.simulator.checks.prefixes import PrefixCheck
from heddle.simulator.checks.searches import SearchCheck
from heddle.simulator.checks.streams import StreamCheck
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.disk import Disk
from heddle.simulator.event_log import EventLog
from heddle.simulator.faults import (
    DISK,
    DISK_FAULTS,
    NO_FAULTS,
    SERVER,
    SERVER_FAULTS,
    Fault,
    FaultRates,
    FaultSource,
    Strike,
    strikes_at,
)
from heddle.simulator.invariants import violations
from heddle.simulator.port import SimulatedLane
from heddle.simulator.ticket import Ticket
from heddle.simulator.timeline import Timeline
from heddle.simulator.workload import USUAL_SHARES, Arrival, WorkloadShares, random_workload
from heddle.simulator.world import World

LLM_LIMITS: Final = SchedulerLimits(
    max_num_seqs=4,
    max_num_batched_tokens=24,
    page_size=4,
    page_count=40,
    context_tokens_max=96,
)
PAGE_BYTES: Final = 64
VECTOR_SLOTS: Final = 6
WEIGHTS: Final[Mapping[Fault, float]] = {
    # A lane that is gone takes everything with it, so that this must be rare; there are few
    # writes and arrivals, so that what strikes at them must not be.
    Fault.LOSE_LANE: 0.5,
    Fault.HANG: 0.3,
    Fault.FALSE_DEATH: 0.5,
    Fault.SLOW_START: 0.2,
    Fault.GIVE_UP: 0.05,
    Fault.DISK_FULL: 5.0,
    Fault.DISK_ERROR: 5.0,
    Fault.TORN_WRITE: 5.0,
    Fault.BIT_ROT: 5.0,
    Fault.CRASH_SERVER: 1.0,
}
"""How often faults strike, by the seed's share; the others at that share itself."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a simulation is drawn from; equal scenarios replay equally.

    `requests_kept` are the requests that arrive, by their numbers from 0, and `strikes` the faults
    that may strike; None = all.
    """

    seed: int
    requests: int = 12
    rate_per_s: float = 40.0
    rates: FaultRates = NO_FAULTS
    policy: str = "shortest_first"
    disabled: frozenset[str] = frozenset()
    cycle_passes: tuple[CyclePass, ...] = CYCLE_PASSES
    latency_s: float = 1e-4
    requests_max: int = 64
    shares: WorkloadShares = USUAL_SHARES
    substage_budget_s: float = 2e-3
    nlist: int = 12
    speculates: bool = False
    has_owners: bool = False
    has_second_embedder: bool = False
    requests_kept: frozenset[int] | None = None
    strikes: frozenset[Strike] | None = None

    def lanes(self, disk: Disk) -> tuple[SimulatedLane, ...]:
        """Return three or four lanes: small enough that slots, pages and credits run out.

        The vector lane of any epoch writes to `disk`. Two that embed have one credit each, so
        that rows wait.
        """
        build_embedding = partial(_build_embedding, self.order)
        credits = 1 if self.has_second_embedder else 6
        second = [("embedding-2", build_embedding, credits)] if self.has_second_embedder else []
        return tuple(
            SimulatedLane(name, build, credits_total, self.latency_s, self.rates, self.strikes)
            for name, build, credits_total in (
                ("embedding", build_embedding, credits),
                *second,
                ("vector", partial(self._build_vector, disk), 3),
                ("llm", partial(_build_llm, self.order), 12),
            )
        )

    @property
    def order(self) -> CallOrder:
        """Whose call each engine serves first."""
        return CallOrder(FIRST_SERVED[self.policy])

    def arrivals(self) -> tuple[Arrival, ...]:
        """Return the workload."""
        draws = random.Random(self.seed)
        arrivals = random_workload(draws, self.requests, self.rate_per_s, shares=self.shares)
        return tuple(arrivals[number] for number in sorted(self.numbers_kept))

    @property
    def numbers_kept(self) -> frozenset[int]:
        """The numbers of the requests that arrive."""
        every = frozenset(range(self.requests))
        return every if self.requests_kept is None else every & self.requests_kept

    def faults_of(self, place: str, kinds: frozenset[Fault]) -> FaultSource:
        """Return what draws the faults of the disk or of the server."""
        draws = random.Random(f"{place} {self.seed}")
        return FaultSource(self.rates, draws, kinds, strikes_at(place, self.strikes))

    def checks(self) -> tuple[Check, ...]:
        """Return what watches a simulation of it."""
        device = SimulatedDevice(Timeline(), random.Random(0))
        scanner = cost_model_vector.CostModelScanner(device, nlist=self.nlist)
        return (
            StreamCheck(),
            EndCheck(),
            LeftoverCheck(latency_s=self.latency_s),
            SearchCheck(scanner=scanner, has_owners=self.has_owners),
            PrefixCheck(),
            BlameCheck(),
        )

    def _build_vector(
        self, disk: Disk, name: str, epoch: int, device: SimulatedDevice
    ) -> SteppedEngine:
        scanner = cost_model_vector.CostModelScanner(device, nlist=self.nlist)
        corpus = cost_model_vector.SimulatedCorpus(
            scanner, device, disk, has_owners=self.has_owners
        )
        return ivf_engine(
            name,
            epoch,
            corpus,
            device,
            slots=VECTOR_SLOTS,
            substage_budget_s=self.substage_budget_s,
            prior_s=cost_model_vector.COSTS_S,
            finality=Finality() if self.speculates else None,
            order=self.order,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished simulation: what each arrival got, a digest of all that happened, counts."""

    tickets: tuple[Ticket, ...]
    digest: str
    faults: Counter[Fault]
    retries: int
    ended_s: float


def random_rates(draws: random.Random, share: float) -> FaultRates:
    """Return a seed's own mix of faults: each kind is left out of half of the seeds.

    A seed with few kinds sees what many others would cover up. (Groce et al., Swarm testing, 2012)
    """
    weights = ((fault, WEIGHTS.get(fault, 1.0) * draws.choice((0, 1))) for fault in Fault)
    return FaultRates(**{fault.value: weight * share for fault, weight in weights})


def random_scenario(seed: int) -> Scenario:
    """Return the scenario of a seed: how many requests, how fast, how many faults."""
    draws = random.Random(f"scenario {seed}")
    share = draws.choice((0.0, 0.003, 0.01, 0.03))
    return Scenario(
        seed=seed,
        requests=8 + int(13 * draws.random() ** 3),
        rate_per_s=draws.choice((10.0, 40.0, 160.0)),
        rates=random_rates(random.Random(f"faults {seed}"), share),
        policy=draws.choice(tuple(POLICIES)),
        latency_s=draws.choice((0.0, 1e-4, 5e-3)),
        requests_max=draws.choice((6, 64)),
        has_owners=draws.random() < 0.5,
        disabled=_random_passes(draws),
        speculates=draws.random() < 0.5,
        has_second_embedder=draws.random() < 0.25,
    )


def _random_passes(draws: random.Random) -> frozenset[str]:
    """Return the passes that a seed leaves out: none in half of the seeds."""
    if draws.random() < 0.5:
        return frozenset()
    graph_names = [one.name for one in GRAPH_PASSES]
    names = [*graph_names, *(one.name for one in CYCLE_PASSES)]
    return frozenset(name for name in names if draws.random() < 0.5)


def undisturbed(scenario: Scenario) -> Scenario:
    """Return the same workload, one primitive a batch: nothing fails, is cut or in a hurry.

    A request must have the same answer under the scenario as here.
    """
    return replace(
        scenario,
        rates=NO_FAULTS,
        strikes=None,
        policy="per_invocation",
        cycle_passes=CYCLE_PASSES,
        disabled=frozenset({"split_substages"}),
        substage_budget_s=float("inf"),
        speculates=False,
        has_second_embedder=False,
        requests_max=1_000,
        shares=replace(scenario.shares, tight_deadline=0.0, cancelled=0.0, unoptimized=1.0),
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """A simulation that has been run, and everything that was wrong in it, in words."""

    world: World
    problems: tuple[str, ...]
    cause: Exception | None = None


def attempt(scenario: Scenario, log: EventLog | None = None) -> Attempt:
    """Run a scenario and check it; `log` hears of everything that happens."""
    disk = Disk(scenario.faults_of(DISK, DISK_FAULTS))
    world = World(
        lanes=scenario.lanes(disk),
        seed=scenario.seed,
        tokenizer=cost_model_llm.WordTokenizer(LLM_LIMITS.context_tokens_max),
        passages=cost_model_vector.SimulatedPassages(scenario.has_owners),
        make_checks=scenario.checks,
        disk=disk,
        crashes=scenario.faults_of(SERVER, SERVER_FAULTS),
        policy=POLICIES[scenario.policy],
        disabled=scenario.disabled,
        cycle_passes=scenario.cycle_passes,
        speculates=scenario.speculates,
        limits=RuntimeLimits(requests_max=scenario.requests_max),
        log=log or EventLog(),
    )
    try:
        world.run(scenario.arrivals())
        return Attempt(world, tuple(violations(world)))
    except Exception as error:
        return Attempt(world, (f"{type(error).__name__}: {error}",), error)


def simulate(scenario: Scenario, log: EventLog | None = None) -> Outcome:
    """Run a scenario and check it; `log` hears of everything that happens.

    Raises:
        InternalError: an invariant broke; the message names the seed and the command that
            replays it.
    """
    done = attempt(scenario, log)
    if done.problems:
        raise InternalError(broken(scenario, done.problems)) from done.cause
    world = done.world
    return Outcome(
        tickets=tuple(world.tickets),
        digest=world.log.digest,
        faults=world.faults_drawn(),
        retries=world.runtime.counters.retries,
        ended_s=max((ticket.ended_s for ticket in world.tickets), default=0.0),
    )


def broken(scenario: Scenario, problems: Sequence[str]) -> str:
    """Return what is wrong with a simulation, and the command that replays it."""
    command = f"python -m heddle.simulator --seed {scenario.seed}"
    if scenario.requests_kept is not None:
        command += f" --requests {','.join(map(str, sorted(scenario.requests_kept))) or 'none'}"
    if scenario.strikes is not None:
        told = ",".join(f"{place}:{draw}" for place, draw in sorted(scenario.strikes))
        command += f" --strikes {told or 'none'}"
    said = "\n  ".join(problems)
    return f"simulation of seed {scenario.seed} broke:\n  {said}\nreplay it with: {command} --log"


def _build_embedding(
    order: CallOrder, name: str, epoch: int, device: SimulatedDevice
) -> SteppedEngine:
    worker = cost_model_embedding.CostModelEmbeddingWorker(device)
    limits = BatchLimits(tokens_max=32, rows_max=4, window_rows=16)
    prior_s = cost_model_embedding.COSTS_S
    return EmbeddingEngine(name, epoch, worker, device, limits=limits, prior_s=prior_s, order=order)


def _build_llm(order: CallOrder, name: str, epoch: int, device: SimulatedDevice) -> SteppedEngine:
    slots = LLM_LIMITS.page_count * LLM_LIMITS.page_size
    worker = cost_model_llm.CostModelLlmWorker(device, slots)
    spec = LlmSpec(
        limits=LLM_LIMITS,
        eos_ids=frozenset({cost_model_llm.EOS_ID}),
        fingerprint="cost model",
        page_bytes=PAGE_BYTES,
        prior_s=cost_model_llm.COSTS_S,
        order=order,
    )
    return LlmEngine(name, epoch, worker, spec, cost_model_llm.WordDecoder(), device)
