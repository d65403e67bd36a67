"""The engines that contenders drive: lanes started once for each way in which engines serve."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from benchmarks.contenders.port_client import PortClient
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.heavy_index import HeavySettings, is_flat
from benchmarks.coscheduling.search_calls import PIECES, SearchCalls
from heddle.app.assembly.cluster import open_cluster
from heddle.app.assembly.lanes import VECTOR, lane_specs
from heddle.app.assembly.server_plan import ServerPlan, busy_max, plan_server
from heddle.app.server_config import ServerConfig
from heddle.core.ports import EnginePort
from heddle.corpus.store import CorpusStore
from heddle.engines.embedding.build import EmbeddingSettings
from heddle.engines.llm.build import LlmSettings
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.engines.vector.build import VectorSettings
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.machine import read_machine
from heddle.hosts.process import start_lanes
from heddle.runtime.supervision import LaneLimits
from heddle.workflow.model_prompts import ModelPrompts

MakeClient = Callable[
    [Sequence[EnginePort], PromptTokenizer, CorpusStore, str, dict[str, tuple[int, int]]],
    PortClient,
]
QUIET_S: Final = 0.3
"""A lane that was silent for this time has no frames left of tasks that have ended."""


@dataclass(slots=True)
class LaneSet:
    """Lanes under way; `seen` is the newest frame of each engine.

    `speculates`: their server computes prompts ahead of searches (`speculate`), while its LLM works
    at most `busy_max` of the time; None = it doesn't. `nodes` has the node of each lane that Ray or
    a user has placed on one.

    Mutates: `drain` reads the frames that are left over.
    """

    ports: tuple[EnginePort, ...]
    tokenizer: PromptTokenizer
    store: CorpusStore
    prompts: ModelPrompts
    speculates: bool = False
    busy_max: float | None = 1.0
    nodes: Mapping[str, str] = field(default_factory=dict)
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def client(self, make: MakeClient, salt: str, generations: Generations) -> PortClient:
        """Return a client of these lanes whose generations are noted.

        Args:
            make: the client's class.
            salt: names its prefix cache.
            generations: takes in what is generated.
        """
        ports = [generations.seen(port) for port in self.ports]
        return make(ports, self.tokenizer, self.store, salt, self.seen)

    async def drain(self) -> None:
        """Read frames until no lane has told anything for a while: nothing is left to hear."""
        loop = asyncio.get_running_loop()
        quiet_since_s = loop.time()
        while loop.time() - quiet_since_s < QUIET_S:
            await asyncio.sleep(QUIET_S / 10)
            for port in self.ports:
                for frame in port.frames():
                    self.seen[port.name] = frame.epoch, frame.number
                    quiet_since_s = loop.time()


@contextmanager
def lane_set(
    index: Path,
    heavy: Path | None,
    calls: SearchCalls,
    disk_bytes_per_s: float | None = None,
    /,
    llm: str = "reader",
    is_llm_everywhere: bool = False,
    is_retrieval_everywhere: bool = False,
    **settings: object,
) -> Iterator[LaneSet]:
    """Start the lanes of a server; they end with the block.

    Args:
        index: the corpus.
        heavy: the folder of another index, which is searched in its place; None = the corpus's own.
        calls: how the vector engine takes the queries that wait.
        disk_bytes_per_s: what stored KV is read at [bytes/s]; None = as fast as the disk is.
        llm: the model that writes.
        is_llm_everywhere: its lane has as many threads as there are cores, on any of them.
        is_retrieval_everywhere: retrieval's lane likewise.
        settings: of the server.
    """
    config = ServerConfig.of(llm, index, settings)
    with CorpusStore.open(index) as store, ExitStack() as ending:
        cluster, limits = open_cluster(config, ending), LaneLimits()
        plan = _searching(plan_server(config, store, nodes=cluster.facts), heavy)
        specs = _specs(plan, heavy, calls, disk_bytes_per_s)
        for spreads, kinds in (
            (is_llm_everywhere, (LlmSettings,)),
            (is_retrieval_everywhere, (VectorSettings, HeavySettings, EmbeddingSettings)),
        ):
            if spreads:
                specs = [_everywhere(spec, kinds, read_machine().cores) for spec in specs]
        lanes = start_lanes(specs, limits, cluster.starter(plan.cluster, limits))
        for lane in lanes:
            ending.callback(lane.close)
        assert plan.generator is not None, "the settings name one"
        ports = tuple(port for lane in lanes for port in lane.ports.values())
        tokenizer = PromptTokenizer.from_directory(plan.generator.directory)
        nodes = {lane.name: lane.health.place for lane in lanes if lane.health.place}
        search = plan.search
        yield LaneSet(
            ports, tokenizer, store, plan.prompts, search.speculates, search.busy_max, nodes
        )


def _searching(plan: ServerPlan, heavy: Path | None) -> ServerPlan:
    """Return the plan of a server whose corpus has this index."""
    if heavy is None:
        return plan
    share = busy_max(plan.config, plan.placement, is_flat=is_flat(heavy))
    return replace(plan, search=replace(plan.search, busy_max=share))


def _specs(
    plan: ServerPlan, heavy: Path | None, calls: SearchCalls, disk_bytes_per_s: float | None
) -> Sequence[LaneSpec]:
    def serving(engine: EngineSpec) -> EngineSpec:
        return _serving(_reading_at(engine, disk_bytes_per_s), plan, heavy, calls)

    lanes = lane_specs(replace(plan, embedding=(), readers=()))
    return [replace(lane, engines=tuple(map(serving, lane.engines))) for lane in lanes]


def _everywhere(lane: LaneSpec, kinds: tuple[type, ...], cores: int) -> LaneSpec:
    """Return a lane of such engines with a thread for each core, pinned to none; others as is."""
    if not all(isinstance(engine.settings, kinds) for engine in lane.engines):
        return lane
    engines = [
        replace(engine, settings=replace(engine.settings, threads=cores))  # type: ignore[type-var]
        for engine in lane.engines
    ]
    return replace(lane, engines=tuple(engines), cpus=(), threads=cores)


def _reading_at(engine: EngineSpec, disk_bytes_per_s: float | None) -> EngineSpec:
    """Return an engine that reads stored KV at a rate, if it stores any."""
    own = engine.settings
    if not isinstance(own, LlmSettings):
        return engine
    return replace(engine, settings=replace(own, chunk_kv_bytes_per_s=disk_bytes_per_s))


def _serving(
    engine: EngineSpec, plan: ServerPlan, heavy: Path | None, calls: SearchCalls
) -> EngineSpec:
    """Return an engine as it is to be; only the vector engine changes."""
    if engine.name != VECTOR:
        return engine
    pieces = PIECES[calls]
    slots, budget_s = pieces.slots, pieces.budget_s
    if heavy is None:
        own = engine.settings
        assert isinstance(own, VectorSettings), own
        return replace(engine, settings=replace(own, slots=slots, substage_budget_s=budget_s))
    order, threads = plan.config.call_order, plan.placement.retrieval_threads
    settings = HeavySettings(heavy, threads, order, slots, budget_s, plan.search.speculates)
    factory = "benchmarks.coscheduling.heavy_index:build_engine"
    return replace(engine, factory=factory, settings=settings)
