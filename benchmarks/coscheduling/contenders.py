"""Who drives the engines: a program written by hand, or Heddle's runtime."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from benchmarks.contenders.hand_written import HAND_WRITTEN
from benchmarks.contenders.port_client import AskClient, PortClient
from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.lane_set import LaneSet
from heddle.core.errors import InternalError
from heddle.passes.runner import PassRunner
from heddle.runtime.batching import topology_aware
from heddle.runtime.clock import SystemClock
from heddle.runtime.handle import Handle
from heddle.runtime.loop import RuntimeLoop
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.workflow.model_prompts import with_model_prompts
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.presets import PRESETS
from heddle.workflow.workflow import Workflow


class Driver(Protocol):
    """Answers asks on a set of lanes, until it is ended."""

    async def answer(self, ask: Ask) -> None:
        """Answer one."""
        ...

    async def end(self) -> None:
        """Leave the lanes to the next driver.

        Raises:
            InternalError: a frame was lost, or something had to be done again.
        """
        ...


MakeDriver = Callable[[LaneSet, str, Generations], Driver]


@dataclass(slots=True)
class HandWritten:
    """The workflows as asyncio programs, a client for each."""

    lanes: LaneSet
    client: PortClient

    @classmethod
    def on(cls, lanes: LaneSet, salt: str, generations: Generations) -> "HandWritten":
        """Return a driver whose prompts share a prefix cache under `salt`."""
        ports = [generations.seen(port) for port in lanes.ports]
        return cls(lanes, PortClient(ports, lanes.tokenizer, lanes.store, salt, lanes.seen))

    async def answer(self, ask: Ask) -> None:
        await HAND_WRITTEN[ask.workflow](AskClient(self.client, ask.nprobe), ask.question)

    async def end(self) -> None:
        await self.lanes.drain()


class HeddleDriver:
    """Heddle's runtime, as a server has it."""

    def __init__(self, lanes: LaneSet, salt: str, generations: Generations) -> None:
        self._lanes, self._salt = lanes, salt
        self._clock = SystemClock()
        self._runtime = Runtime(
            ports=[generations.seen(port) for port in lanes.ports],
            planner=RegionPlanner(PassRunner(self._clock)),
            policy=topology_aware,
            tokenizer=lanes.tokenizer,
            passages=lanes.store,
            speculates=lanes.speculates,
        )
        for name, lane in self._runtime.lanes.items():
            # These lanes have served other drivers: frames are counted on from there.
            lane.seen = lanes.seen.get(name, lane.seen)
        self._loop = RuntimeLoop(self._runtime, self._clock, asyncio.get_running_loop())
        self._loop.start()

    async def answer(self, ask: Ask) -> None:
        handle = Handle(lambda: None)
        self._runtime.submit(
            compiled(ask.workflow, ask.nprobe, self._lanes),
            {"query": ask.question},
            handle.push,
            now_s=self._clock.now_s(),
            tenant=self._salt,
        )
        self._loop.wake()
        await handle

    async def end(self) -> None:
        self._loop.close()
        self._lanes.seen.update({name: lane.seen for name, lane in self._runtime.lanes.items()})
        await self._lanes.drain()
        counters = self._runtime.counters
        if counters.retries or counters.frames_dropped or counters.failed:
            raise InternalError(f"this run is no measurement: {counters}")


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


async def latencies_s(answer: Callable[[Ask], Awaitable[None]], asks: list[Ask]) -> list[float]:
    """Answer a block of asks as they come; return how long each took [s]."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()

    async def one(ask: Ask) -> float:
        await asyncio.sleep(max(0.0, started_s + ask.at_s - loop.time()))
        came_s = loop.time()
        await answer(ask)
        return loop.time() - came_s

    return list(await asyncio.gather(*(one(ask) for ask in asks)))


async def capacity_per_s(driver: Driver, asks: Sequence[Ask], in_flight: int) -> float:
    """Return how many asks end a second while as many are in flight, from a fifth to four."""
    loop = asyncio.get_running_loop()
    ends_s: list[float] = []
    left = iter(asks)

    async def one_after_the_other() -> None:
        for ask in left:
            await driver.answer(ask)
            ends_s.append(loop.time())

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))
    first, last = len(asks) // 5, 4 * len(asks) // 5
    return (last - first) / (ends_s[last] - ends_s[first])


DRIVERS: Mapping[str, MakeDriver] = {
    "asyncio_fifo": HandWritten.on,
    "asyncio_same": HandWritten.on,
    "heddle": HeddleDriver,
}
