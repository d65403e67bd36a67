"""What graphs and passes cost: CPU of lowering, passes and scheduling for one request.

Engines answer at once, so that the runtime's own work is left: lowering a workflow to
primitives, the passes, and the scheduling of each primitive. Once for a workflow that has run
before, as its graph is kept then, and once for one that is new (`first_ms`, ten nodes). Medians
over repetitions, one request at a time.

`share` is that of a oneshot over how long one takes alone on real engines: the packaged embedder,
Wikipedia passages in the default index, the reader. `communication_share` is what else this process
does for it: tokenising, encoding and sending messages, waking up. (Teola §7.5 has 1.3 to 3 % for
graph optimisation and 3.1 to 6.2 % for communication.)
"""

import asyncio
import statistics
import time
from contextlib import ExitStack
from typing import Final

from benchmarks.contenders.heddle_hyde import Asker
from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.contenders import HeddleServer
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.lane_set import LaneSet, lane_set
from benchmarks.coscheduling.search_calls import SearchCalls
from benchmarks.support.data import rows
from benchmarks.support.wiki_index import wiki_index
from heddle.workflow.presets import oneshot
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

PAIRS: Final = 5  # a search and a text each
QUERY: Final = "what is a loom?"


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure both workflows on engines that answer at once, and a oneshot on real ones."""
    repetitions, requests, asked = (2, 50, 3) if quick else (9, 500, 40)
    measured = []
    for _ in range(repetitions):
        measured.append(asyncio.run(_measure(requests)))
        print("  ".join(f"{name} {ms:.3f} ms" for name, ms in measured[-1].items()), flush=True)
    headline = {name: statistics.median(row[name] for row in measured) for name in measured[0]}
    wiki = wiki_index(quick)
    questions = [row["question"] for row in rows(wiki.single)][:asked]
    with ExitStack() as started:
        lanes = started.enter_context(lane_set(wiki.directory, None, SearchCalls.SUBSTAGES))
        latency_ms, cpu_ms = asyncio.run(_alone(lanes, questions))
    return {
        "settings": {"repetitions": repetitions, "requests": requests, "asked": asked},
        "rows": [*measured, {"oneshot_latency_ms": latency_ms, "oneshot_process_ms": cpu_ms}],
        "headline": {
            **headline,
            "share": headline["oneshot_ms"] / latency_ms,
            "communication_share": max(0.0, cpu_ms - headline["oneshot_ms"]) / latency_ms,
        },
    }


def ten_nodes() -> Workflow:
    """Return a chain of searches and texts, each search with the text before."""
    graph, query = RAGraph("ten nodes"), "query"
    for number in range(PAIRS):
        graph.add_retrieval(f"find {number}", query=query, topk=5, output=f"docs{number}")
        query = f"text{number}"
        prompt = f"Answer {{query}} from {{docs{number}}}"
        graph.add_generation(f"write {number}", prompt, output=query)
    return graph.compile()


async def _measure(requests: int) -> dict[str, float]:
    """Return CPU milliseconds of a request of each kind."""
    first_ms = []
    for _ in range(requests // 10):
        asker = Asker(ten_nodes())
        asker.start()
        first_ms.append(await _cpu_ms(asker, 1))
    return {
        "oneshot_ms": await _warm_ms(oneshot().compile(), requests),
        "ten_nodes_ms": await _warm_ms(ten_nodes(), requests),
        "first_ms": statistics.median(first_ms),
    }


async def _warm_ms(workflow: Workflow, requests: int) -> float:
    asker = Asker(workflow)
    await asker.ask(QUERY)
    return await _cpu_ms(asker, requests)


async def _cpu_ms(asker: Asker, requests: int) -> float:
    started_s = time.process_time()
    for _ in range(requests):
        await asker.ask(QUERY)
    return (time.process_time() - started_s) / requests * 1e3


async def _alone(lanes: LaneSet, questions: list[str]) -> tuple[float, float]:
    """Return the latency of oneshots one after the other, and this process's CPU for each [ms]."""
    driver = HeddleServer()(lanes, "alone", Generations())
    latencies_s, cpu_s = [], []
    for question in questions:
        came_s, worked_s = time.perf_counter(), time.process_time()
        await driver.answer(Ask("oneshot", question, None, 0.0))
        latencies_s.append(time.perf_counter() - came_s)
        cpu_s.append(time.process_time() - worked_s)
    await driver.end()
    return statistics.median(latencies_s) * 1e3, statistics.median(cpu_s) * 1e3
