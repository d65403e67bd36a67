"""A server on the virtual clock: the real runtime and the real engines, over costs."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from benchmarks.coscheduling.search_calls import PIECES, SearchCalls
from benchmarks.virtual.clocked_server import ClockedServer, VirtualAsk
from benchmarks.virtual.delay_port import DelayPort
from benchmarks.virtual.machine import Machine
from heddle.core.call_order import CallOrder, FirstServed
from heddle.core.ports import EnginePort, SteppedEngine
from heddle.engines.embedding.engine import EmbeddingEngine
from heddle.engines.llm.engine import LlmEngine, LlmSpec
from heddle.engines.vector.ivf.early_stop.finality import Finality
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.step_counts import PRIOR_S
from heddle.passes.runner import PassRunner
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import FIRST_SERVED, POLICIES
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.simulator.cost_model_vector import SimulatedCorpus
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.scripted.counted_text import CountingTokenizer, WrittenDecoder
from heddle.simulator.scripted.llm import ScriptedLlmWorker
from heddle.simulator.scripted.retrieval import (
    ScriptedEmbeddingWorker,
    ScriptedPassages,
    ScriptedScanner,
)
from heddle.simulator.scripted.shared_core import CorePort, SharedCore
from heddle.simulator.timeline import Timeline

EMBEDDING_ROWS: Final = 256
VECTOR_ROWS: Final = 256
TOOL_S: Final = 0.3  # a call to a web search
RETRIEVAL, LLM = "retrieval", "llm"


@dataclass(frozen=True, slots=True)
class Way:
    """How a server schedules: its order, the passes it leaves out, whether it speculates."""

    batching: str = "shortest_first"
    disabled: frozenset[str] = frozenset()
    speculates: bool = False


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a run during which lanes were lost.

    Args:
        seconds: how long each answer took [s].
        failed: requests without one.
        retries: primitives that were sent again.
        resumed: generations that went on in mid-answer.
    """

    seconds: list[float]
    failed: int
    retries: int
    resumed: int


@dataclass(slots=True)
class VirtualServer:
    """One server from its start until all requests are answered: the real engines, over costs.

    Args:
        machine: what its engines cost.
        way: how it schedules.
        passages: lengths of the corpus's passages [tokens].

    Mutates: everything, in `serve`.
    """

    machine: Machine
    way: Way
    passages: Sequence[int]
    timeline: Timeline = field(default_factory=Timeline)
    ports: list[CorePort] = field(default_factory=list)
    _clocked: ClockedServer = field(init=False)
    _cores: dict[str, SharedCore] = field(init=False)

    def __post_init__(self) -> None:
        self._build_engines()
        ports: list[EnginePort] = [*self.ports, DelayPort(self.timeline, TOOL_S)]
        runtime = Runtime(
            ports=ports,
            planner=RegionPlanner(PassRunner(self.timeline, disabled=self.way.disabled)),
            policy=POLICIES[self.way.batching],
            limits=RuntimeLimits(requests_max=1 << 20),
            tokenizer=CountingTokenizer(self.machine.llm.context_tokens_max),
            passages=ScriptedPassages(self.passages),
            clock=self.timeline,
            speculates=self.way.speculates,
        )
        self._clocked = ClockedServer(self.timeline, runtime, self.machine.router_s)

    def serve(self, asks: Sequence[VirtualAsk]) -> list[float]:
        """Answer asks as they come; return how long each took [s]."""
        return [one.seconds for one in self._clocked.serve(asks)]

    def serve_with_failures(self, asks: Sequence[VirtualAsk]) -> Served:
        """Answer asks as they come, some of which may fail; return what became of them."""
        self._clocked.may_fail = True
        answered = self._clocked.serve(asks)
        return Served(
            [one.seconds for one in answered],
            self._clocked.failed,
            sum(one.receipt.retries for one in answered),
            sum(one.receipt.resumed for one in answered),
        )

    def serve_in_turn(self, asks: Sequence[VirtualAsk], in_flight: int) -> list[float]:
        """Answer asks, `in_flight` at a time; return when each ended [s]. Arrivals don't count."""
        return [one.ended_s for one in self._clocked.serve_in_turn(asks, in_flight)]

    @property
    def cycles(self) -> int:
        """How many cycles the runtime has had."""
        return self._clocked.cycles

    def worked_s(self) -> dict[str, float]:
        """Return how long each engine's steps took in all [s]."""
        return {port.name: port.worked_s for port in self.ports}

    def lose(self, lane: str, at_s: float, restart_s: float) -> None:
        """Lose a lane's node at a time from now on, for `restart_s` from when it is noticed."""
        self.timeline.after(at_s, partial(self._cores[lane].lose, restart_s))

    def _build_engines(self) -> None:
        machine = self.machine
        retrieval, llm = (SharedCore(self.timeline, machine.latency_s) for _ in range(2))
        search = retrieval
        if not machine.shares_core:
            search = SharedCore(self.timeline, machine.latency_s)
        self._cores = {RETRIEVAL: search, LLM: llm}
        llm_rows = 4 * machine.llm.max_num_seqs
        for core, build, rows in (
            (retrieval, self._embedding, EMBEDDING_ROWS),
            (search, self._vector, VECTOR_ROWS),
            (llm, self._llm, llm_rows),
        ):
            device = SimulatedDevice(self.timeline, random.Random(0), jitter_share=0.0)
            rebuild = partial(build, device)
            self.ports.append(core.add(rebuild(1), device, rows, rebuild))

    @property
    def _order(self) -> CallOrder:
        return CallOrder(FIRST_SERVED[self.way.batching])

    def _embedding(self, device: SimulatedDevice, epoch: int) -> SteppedEngine:
        costs_s = self.machine.embedding_s
        worker = ScriptedEmbeddingWorker(device, costs_s)
        return EmbeddingEngine(
            "embedding", epoch, worker, device, prior_s=costs_s, order=self._order
        )

    def _vector(self, device: SimulatedDevice, epoch: int) -> SteppedEngine:
        machine = self.machine
        scanner = ScriptedScanner(
            device,
            machine.vector_s,
            nlist=machine.nlist,
            nprobe_default=machine.nprobe_default,
            shares_lists=machine.shares_lists,
        )
        is_fifo = self._order.first is FirstServed.ARRIVAL
        pieces = PIECES[machine.fifo_calls if is_fifo else SearchCalls.SUBSTAGES]
        return ivf_engine(
            "vector",
            epoch,
            SimulatedCorpus(scanner, device),
            device,
            slots=pieces.slots,
            substage_budget_s=pieces.budget_s,
            prior_s={**PRIOR_S, **machine.vector_s, "vectors": 0.0},
            finality=Finality() if self.way.speculates else None,
            order=self._order,
        )

    def _llm(self, device: SimulatedDevice, epoch: int) -> SteppedEngine:
        machine = self.machine
        spec = LlmSpec(
            limits=machine.llm,
            eos_ids=frozenset(),
            fingerprint="virtual",
            page_bytes=1,
            prior_s=machine.llm_s,
            order=self._order,
        )
        worker = ScriptedLlmWorker(device, machine.llm_s, machine.floor_s)
        return LlmEngine("llm", epoch, worker, spec, WrittenDecoder(), device)
