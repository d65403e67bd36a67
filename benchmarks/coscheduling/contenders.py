"""Who drives the engines: a program written by hand, or Heddle's runtime."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from benchmarks.contenders.hand_written import HAND_WRITTEN, Client, Program
from benchmarks.contenders.port_client import AskClient, PortClient
from benchmarks.contenders.teola_clients import BundledClient, ChainedClient
from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.lane_set import LaneSet, MakeClient
from benchmarks.coscheduling.recorded_work import RecordedWork
from benchmarks.coscheduling.search_calls import PIECES, SearchCalls
from heddle.core.commands import Steer
from heddle.core.errors import InternalError
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse, ReusePolicy
from heddle.core.tasks import Optimizations
from heddle.passes.runner import PassRunner
from heddle.runtime.batching import topology_aware
from heddle.runtime.clock import SystemClock
from heddle.runtime.counters import Counters
from heddle.runtime.events import Answer, RequestEvent
from heddle.runtime.handle import Handle
from heddle.runtime.loop import RuntimeLoop
from heddle.runtime.receipt import Receipt
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.request import EventSink
from heddle.runtime.runtime import Runtime
from heddle.workflow.model_prompts import with_model_prompts
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.presets import PRESETS
from heddle.workflow.workflow import Workflow

ENDS_S: Final = 10.0
ENDS_LOOKS: Final = 1_000
FUSIONRAG: Final = KvReuse(ReusePolicy.FUSIONRAG, 0.15)


class Driver(Protocol):
    """Answers asks on a set of lanes, until it is ended."""

    async def answer(self, ask: Ask) -> str:
        """Answer one."""
        ...

    async def end(self) -> None:
        """Leave the lanes to the next driver.

        Raises:
            InternalError: a frame was lost, or something had to be done again.
        """
        ...


MakeDriver = Callable[[LaneSet, str, Generations], Driver]
"""Called on the running loop, with the lanes, the name of a prefix cache, and what notes texts."""
ClientOf = Callable[[PortClient, Ask], Client]


@dataclass(slots=True)
class Programmed:
    """The workflows as programs, each request with a client of its own."""

    lanes: LaneSet
    client: PortClient
    client_of: ClientOf
    programs: Mapping[str, Program]

    async def answer(self, ask: Ask) -> str:
        """Answer one."""
        return await self.programs[ask.workflow](self.client_of(self.client, ask), ask.question)

    async def end(self) -> None:
        """Leave the lanes to the next driver."""
        await self.lanes.drain()


def _gathering(client: PortClient, ask: Ask) -> Client:
    return AskClient(client, ask.nprobe)


def _chained(client: PortClient, ask: Ask) -> Client:
    return ChainedClient(client, ask.nprobe)


def programmed(
    make_programs: Callable[[], Mapping[str, Program]],
    make_client: MakeClient = PortClient,
    client_of: ClientOf = _gathering,
) -> MakeDriver:
    """Return what makes drivers of programs.

    Args:
        make_programs: called on the running loop; returns the workflows.
        make_client: of a driver: how its calls reach the engines.
        client_of: of a request: which calls it makes.
    """

    def make(lanes: LaneSet, salt: str, generations: Generations) -> Programmed:
        client = lanes.client(make_client, salt, generations)
        return Programmed(lanes, client, client_of, make_programs())

    return make


HAND: Final = programmed(lambda: HAND_WRITTEN)
"""The workflows as asyncio programs: calls that can run side by side do."""


@dataclass(slots=True)
class Reuse:
    """What prompts took from elsewhere. Mutates: `note` counts.

    `chunks`: retrieved passages by how their KV was found; of `guesses` at a prompt, `won` served.
    """

    prompt_tokens: int = 0
    tokens_reused: int = 0
    chunks: Counter[str] = field(default_factory=Counter)
    guesses: int = 0
    won: int = 0

    def note(self, receipt: Receipt) -> None:
        """Count a request."""
        self.prompt_tokens += receipt.prompt_tokens
        self.tokens_reused += receipt.prompt_tokens_reused
        for fused in receipt.kv_reuse:
            self.chunks.update(fused.chunks)
        self.guesses += len(receipt.speculations)
        self.won += sum(guess.is_adopted for guess in receipt.speculations)

    @property
    def share(self) -> float:
        """The share of the prompts' tokens."""
        return self.tokens_reused / max(1, self.prompt_tokens)


@dataclass(slots=True)
class HeddleServer:
    """Heddle's runtime on a set of lanes, from block to block, with all that it has learned.

    It makes drivers (`MakeDriver`), of which one is at work at a time.

    Args:
        kv_reuse: how prompts use stored chunk KV; None = exact, they don't.
        reuse: counts what was reused.
        speculates: whether prompts are computed ahead; None = as the lanes' server would.
        disabled: names of passes to leave out.

    Mutates: makes its runtime with the first driver, and anew where others note the generations.
    """

    kv_reuse: KvReuse | None = None
    reuse: Reuse = field(default_factory=Reuse)
    speculates: bool | None = None
    disabled: frozenset[str] = frozenset()
    _runtime: Runtime | None = None
    _noted_by: Generations | None = None

    def __call__(self, lanes: LaneSet, salt: str, generations: Generations) -> "HeddleDriver":
        """Return a driver; called on the running loop."""
        if self._runtime is None or self._noted_by is not generations:
            self._runtime, self._noted_by = self._made(lanes, generations), generations
        return HeddleDriver(lanes, salt, self, self._runtime, generations.work)

    def _made(self, lanes: LaneSet, generations: Generations) -> Runtime:
        return Runtime(
            ports=[generations.seen(port) for port in lanes.ports],
            planner=RegionPlanner(PassRunner(SystemClock(), disabled=self.disabled)),
            policy=topology_aware,
            tokenizer=lanes.tokenizer,
            passages=lanes.store,
            speculates=lanes.speculates if self.speculates is None else self.speculates,
            busy_max=lanes.busy_max,
        )


class HeddleDriver:
    """One block of a Heddle server.

    Args:
        lanes: the engines.
        salt: names its prefix cache.
        server: how it answers, and where its receipts are counted.
        runtime: the server's.
        work: takes in what requests make the engines do.
    """

    def __init__(
        self,
        lanes: LaneSet,
        salt: str,
        server: HeddleServer,
        runtime: Runtime,
        work: RecordedWork,
    ) -> None:
        self._lanes, self._salt, self._server, self._work = lanes, salt, server, work
        self._runtime, self._clock = runtime, SystemClock()
        self._before = replace(runtime.counters)
        for name, lane in runtime.lanes.items():
            # These lanes have served other drivers: frames are counted on from there.
            lane.seen = lanes.seen.get(name, lane.seen)
            if lane.steered is not None:
                lane.port.send(Steer(budget_s=lane.steered[1]))
        self._loop = RuntimeLoop(runtime, self._clock, asyncio.get_running_loop())
        self._loop.start()

    async def answer(self, ask: Ask) -> str:
        """Answer one."""
        return (await self.ask(ask, compiled(ask.workflow, ask.nprobe, self._lanes))).text

    async def ask(
        self, ask: Ask, workflow: Workflow, hear: EventSink = lambda event: None
    ) -> Answer:
        """Return the answer of a workflow to a question; `hear` hears of all that happens."""
        kv_reuse = self._server.kv_reuse
        handle = Handle(lambda: None)

        def sink(event: RequestEvent) -> None:
            hear(event)
            handle.push(event)

        request_id = self._runtime.submit(
            workflow,
            {"query": ask.question},
            sink,
            now_s=self._clock.now_s(),
            tenant=self._salt,
            optimizations=Optimizations.EXACT if kv_reuse is None else Optimizations.APPROX,
            kv_reuse=kv_reuse or FULL_ATTENTION,
            awaits_end_alone=handle.awaits_end_alone,
        )
        self._work.begins(request_id, ask.workflow)
        self._loop.wake()
        answer = await handle
        self._server.reuse.note(answer.receipt)
        return answer

    async def end(self) -> None:
        """Leave the lanes to the next driver, as they were started.

        Raises:
            InternalError: a frame was lost, or something had to be done again.
        """
        await self._task_ends()
        self._loop.close()
        for lane in self._runtime.lanes.values():
            if lane.steered is not None:
                lane.port.send(Steer(budget_s=PIECES[SearchCalls.SUBSTAGES].budget_s))
        self._lanes.seen.update({name: lane.seen for name, lane in self._runtime.lanes.items()})
        await self._lanes.drain()
        problems = _problems(self._runtime.counters)
        if problems != _problems(self._before):
            raise InternalError(f"this run is no measurement: {self._runtime.counters}")

    async def _task_ends(self) -> None:
        """Hear of the last tasks, which answers don't wait for: those sent ahead for nothing.

        Raises:
            InternalError: they don't end.
        """
        for _ in range(ENDS_LOOKS):
            if not self._runtime.tasks.open:
                return
            await asyncio.sleep(ENDS_S / ENDS_LOOKS)
        raise InternalError(f"tasks have not ended: {sorted(self._runtime.tasks.open)}")


def _problems(counters: Counters) -> tuple[int, int, int]:
    return counters.retries, counters.frames_dropped, counters.failed


_compiled: dict[tuple[str, int | None], Workflow] = {}


def compiled(name: str, nprobe: int | None, lanes: LaneSet) -> Workflow:
    """Return a ready-made workflow with the model's prompts, whose searches scan `nprobe` lists."""
    key = name, nprobe
    if key not in _compiled:
        workflow = with_model_prompts(PRESETS[name]().compile(), lanes.prompts)
        nodes = {
            node_id: replace(node, nprobe=nprobe) if isinstance(node, RetrievalNode) else node
            for node_id, node in workflow.nodes.items()
        }
        _compiled[key] = replace(workflow, nodes=nodes)
    return _compiled[key]


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer and how long it took [s]."""

    text: str
    seconds: float


async def answered(answer: Callable[[Ask], Awaitable[str]], asks: Sequence[Ask]) -> list[Answered]:
    """Answer a block of asks as they come; the first that fails ends the others."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()

    async def one(ask: Ask) -> Answered:
        await asyncio.sleep(max(0.0, started_s + ask.at_s - loop.time()))
        came_s = loop.time()
        text = await answer(ask)
        return Answered(text, loop.time() - came_s)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(ask)) for ask in asks]
    return [task.result() for task in tasks]


async def capacity_per_s(driver: Driver, asks: Sequence[Ask], in_flight: int) -> float:
    """Return how many asks end a second while as many are in flight, from a fifth to four."""
    loop = asyncio.get_running_loop()
    ends_s: list[float] = []
    left = iter(asks)

    async def one_after_the_other() -> None:
        for ask in left:
            await driver.answer(ask)
            ends_s.append(loop.time())

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(one_after_the_other())
    first, last = len(asks) // 5, 4 * len(asks) // 5
    return (last - first) / (ends_s[last] - ends_s[first])


TEOLA: Final[Mapping[str, MakeDriver]] = {
    "llama_dist_po": programmed(lambda: HAND_WRITTEN, BundledClient, _chained),
    "llama_dist_to": programmed(lambda: HAND_WRITTEN, PortClient, _chained),
    "llama_dist_pc_po": programmed(lambda: HAND_WRITTEN, BundledClient),
    "llama_dist_pc_to": HAND,
}
"""Teola's baselines (§7): LlamaDist's modules run one after another and cache no prompt; in
LlamaDistPC the programmer has made parallel what can be, and prompts share a prefix cache. PO: an
engine carries out one call at a time; TO: it batches all that waits, as it came. Modules call the
engines directly here: neither Ray nor LlamaIndex adds its own time."""
