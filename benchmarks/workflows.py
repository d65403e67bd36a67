"""Latency of the five workflows under load, beside the same engines driven two other ways.

* heddle: the runtime (topology-aware admission, sub-stages).
* asyncio: the workflows written by hand on the same lanes: what a good programmer does, with the
  lanes' own batching and prefix cache on. This is the honest bar.
* barrier: all waiting generations to their end, then all waiting searches (a data-set-at-a-time
  runner, labelled FlashRAG-style; FlashRAG itself isn't run).

Real questions (NQ, SQuADShifts, OTT-QA and multi-hop) over 46,000 Wikipedia passages (quick:
2,000), the reader as LLM, Poisson arrivals, the same arrivals for all, runs in turns: the workflows
mixed, then each alone. Rates are shares of the throughput that heddle reaches with the same
requests when all are there at once. Each run has a prefix cache of its own (a salt). x_*_p50 above
1 means heddle is faster; the headline is the geometric mean over the rates of the mixed load.
"""

import asyncio
import itertools
import math
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.contenders.hand_written import HAND_WRITTEN
from benchmarks.contenders.port_client import BarrierClient, PortClient
from benchmarks.support.data import rows
from benchmarks.support.wiki_index import wiki_index
from heddle.app.assembly.lanes import lane_specs
from heddle.app.assembly.server_plan import plan_server
from heddle.app.server_config import ServerConfig
from heddle.core.ports import EnginePort
from heddle.corpus.store import CorpusStore
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer
from heddle.hosts.process import start_lanes
from heddle.passes.runner import PassRunner
from heddle.runtime.batching import topology_aware
from heddle.runtime.clock import SystemClock
from heddle.runtime.handle import Handle
from heddle.runtime.loop import RuntimeLoop
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.workflow.presets import PRESETS

SHARES = (0.3, 0.6, 0.9)
CONTENDERS = ("heddle", "asyncio", "barrier")
MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, the workflow that answers it, and when it arrives [s]."""

    workflow: str
    question: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Engines:
    """The lanes that all contenders drive in turn; `seen` is each one's newest frame."""

    ports: tuple[EnginePort, ...]
    tokenizer: PromptTokenizer
    store: CorpusStore
    seen: dict[str, tuple[int, int]]


Answerer = Callable[[str, str], Awaitable[object]]


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure every contender at every rate, in turns."""
    index = wiki_index(quick)
    config = ServerConfig(index=index.directory)
    with CorpusStore.open(Path(index.directory)) as store:
        plan = plan_server(config, store)
        assert plan.generator is not None, "the configuration names one"
        lanes = start_lanes(lane_specs(replace(plan, embedding=())))
        try:
            ports = tuple(port for lane in lanes for port in lane.ports.values())
            tokenizer = PromptTokenizer.from_directory(plan.generator.directory)
            questions = _questions(index.single, index.multihop, seed)
            engines = Engines(ports, tokenizer, store, {})
            return asyncio.run(_measure_all(engines, questions, quick, seed))
        finally:
            for lane in lanes:
                lane.close()


def _questions(single: str, multihop: str, seed: int) -> list[str]:
    found = [row["question"] for name in (single, multihop) for row in rows(name)]
    random.Random(seed).shuffle(found)
    return found


async def _measure_all(
    engines: Engines, questions: Sequence[str], quick: bool, seed: int
) -> dict[str, object]:
    count, repetitions, alone = (5, 1, 0) if quick else (20, 3, 8)
    shares = SHARES[1:2] if quick else SHARES
    loads = [(MIXED, count, repetitions)]
    loads += [(workflow, alone, 1) for workflow in PRESETS if alone]
    await _capacity(engines, MIXED, questions, seed, 5)  # warms up
    capacity: dict[str, float] = {}
    table: list[dict[str, object]] = []
    for workflow, number, times in loads:
        capacity[workflow] = await _capacity(engines, workflow, questions, seed, number)
        print(f"{workflow}: heddle answers {capacity[workflow]:.2f} a second, all there at once")
        for share, repetition in itertools.product(shares, range(times)):
            rate_per_s = share * capacity[workflow]
            asks = _arrivals(workflow, questions, number, rate_per_s, seed + repetition)
            for contender in CONTENDERS:
                table.append(await _cell(engines, contender, workflow, share, asks))
    print(f"cut: {repetitions} repetitions of {count} mixed requests a rate, one of {alone} for")
    print("each workflow alone; longer runs did not fit 15 minutes")
    headline = {
        f"x_{other}_p50": _speedup(table, shares, other) for other in ("asyncio", "barrier")
    }
    headline["serving_mib"] = _resident_bytes() / (1 << 20)
    settings = {"shares": list(shares), "capacity_per_s": capacity, "requests": count}
    return {"settings": settings, "rows": table, "headline": headline}


def _resident_bytes() -> int:
    """Return the memory that this process and its lanes hold."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(process.memory_info().rss for process in processes)


def _arrivals(
    workflow: str, questions: Sequence[str], count: int, rate_per_s: float, seed: int
) -> list[Ask]:
    generator = random.Random(seed)
    names = list(PRESETS)
    at_s = 0.0
    asks = []
    for index in range(count):
        at_s += generator.expovariate(rate_per_s)
        name = names[index % len(names)] if workflow == MIXED else workflow
        question = questions[generator.randrange(len(questions))]
        asks.append(Ask(name, question, at_s))
    return asks


async def _capacity(
    engines: Engines, workflow: str, questions: Sequence[str], seed: int, count: int
) -> float:
    """Return how many requests a second heddle answers when all are there at once."""
    arrivals = _arrivals(workflow, questions, count, 1, seed)
    asks = [Ask(ask.workflow, ask.question, 0.0) for ask in arrivals]
    started_s = time.monotonic()
    await _run_asks(_answerer(engines, "heddle", f"capacity-{workflow}-{count}"), asks)
    return len(asks) / (time.monotonic() - started_s)


async def _cell(
    engines: Engines, contender: str, workflow: str, share: float, asks: Sequence[Ask]
) -> dict[str, object]:
    salt = f"{contender}-{workflow}-{share}-{asks[0].at_s}"
    latencies = sorted(await _run_asks(_answerer(engines, contender, salt), asks))
    row = {
        "contender": contender,
        "workflow": workflow,
        "share": share,
        "p50_s": statistics.median(latencies),
        "p95_s": latencies[max(0, math.ceil(0.95 * len(latencies)) - 1)],
    }
    print(
        f"{contender:<8} {workflow:<9} at {share:.0%}: p50 {row['p50_s']:.2f} s, "
        f"p95 {row['p95_s']:.2f} s",
        flush=True,
    )
    return row


async def _run_asks(answer: Answerer, asks: Sequence[Ask]) -> list[float]:
    started_s = time.monotonic()

    async def one(ask: Ask) -> float:
        await asyncio.sleep(max(0.0, started_s + ask.at_s - time.monotonic()))
        arrived_s = time.monotonic()
        await answer(ask.workflow, ask.question)
        return time.monotonic() - arrived_s

    return list(await asyncio.gather(*(one(ask) for ask in asks)))


def _answerer(engines: Engines, contender: str, salt: str) -> Answerer:
    if contender == "heddle":
        return _heddle(engines, salt)
    client = PortClient(engines.ports, engines.tokenizer, engines.store, salt, engines.seen)
    way = client if contender == "asyncio" else BarrierClient(client)

    async def answer(workflow: str, question: str) -> object:
        return await HAND_WRITTEN[workflow](way, question)

    return answer


def _heddle(engines: Engines, salt: str) -> Answerer:
    clock = SystemClock()
    runtime = Runtime(
        ports=engines.ports,
        planner=RegionPlanner(PassRunner(clock)),
        policy=topology_aware,
        tokenizer=engines.tokenizer,
        passages=engines.store,
    )
    for name, lane in runtime.lanes.items():
        # These lanes have served other drivers: frames are counted on from there.
        lane.seen = engines.seen.get(name, lane.seen)
    driver = RuntimeLoop(runtime, clock, asyncio.get_running_loop())
    driver.start()
    compiled = {name: make().compile() for name, make in PRESETS.items()}

    async def answer(workflow: str, question: str) -> object:
        handle = Handle(lambda: None)
        runtime.submit(
            compiled[workflow],
            {"query": question},
            handle.push,
            now_s=clock.now_s(),
            tenant=salt,
        )
        driver.wake()
        answered = await handle
        engines.seen.update({name: lane.seen for name, lane in runtime.lanes.items()})
        return answered

    return answer


def _speedup(table: Sequence[dict[str, object]], shares: Sequence[float], other: str) -> float:
    """Return the geometric mean over the rates of other's median p50 over heddle's."""
    ratios = []
    for share in shares:
        medians = {
            name: statistics.median(
                float(str(row["p50_s"]))
                for row in table
                if (row["contender"], row["workflow"], row["share"]) == (name, MIXED, share)
            )
            for name in ("heddle", other)
        }
        ratios.append(medians[other] / medians["heddle"])
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
