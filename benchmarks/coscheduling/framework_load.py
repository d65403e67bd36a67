"""`--frameworks`: the five workflows on LangGraph, Haystack and LlamaIndex Workflows.

All run in this process over the engines and the client of asyncio_fifo, on the heavy corpus at 0.8
of its capacity, so only the orchestrator differs.

* lifted: a node for each step, awaited; several searches in one call; no limit of the framework's.
* barrier: all pending generations, then all pending searches, and so on (`stage_barrier`).
* as shipped: the framework's defaults in force: steps are plain functions on the event loop's pool
  of threads (as most integrations are), a retriever takes one query, `concurrency_limit=4` of
  Haystack, `num_workers=4` and `timeout=45` of LlamaIndex. At half of its own capacity, which is
  printed; each default is also tried alone, and the one that leaves the least throughput is named.

x_* are the other's latency over heddle's. Telemetry is off, no framework has a checkpointer. What
is cut for time: four blocks a contender (the main run has eight), one for what is as shipped, and
capacities from 48 questions.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Final

from benchmarks.contenders.framework_defaults import LIFTED, Default, Defaults, MakePrograms
from benchmarks.coscheduling.bed import OWN, asyncio_fifo, heddle
from benchmarks.coscheduling.blocks import Contender, in_turns, latencies_of, run_block
from benchmarks.coscheduling.contenders import programmed
from benchmarks.coscheduling.heavy_load import (
    LOAD,
    HeavyLoad,
    check_same_work,
    figures_of,
    heavy_load,
    result,
)
from benchmarks.coscheduling.ratios import median, p99, ratio
from benchmarks.coscheduling.stage_barrier import StageBarrier
from benchmarks.support.baselines import import_baselines

FRAMEWORKS: Final = ("langgraph", "haystack", "llamaindex")
SHIPPED_LOAD: Final = 0.5
CELL: Final = "frameworks"
HEADLINE: Final = (*(f"x_lifted_{name}_heavy" for name in FRAMEWORKS), "x_barrier_p50_heavy")
QUIET: Final = {
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
}


def measured(quick: bool, seed: int) -> dict[str, Any]:
    """Measure the frameworks.

    Raises:
        StorageError: they can't be installed.
        InternalError: contenders did not do the same work.
    """
    os.environ.update(QUIET)
    import_baselines()
    return asyncio.run(_measure(quick, seed))


async def _measure(quick: bool, seed: int) -> dict[str, Any]:
    async with heavy_load(quick, seed, CELL) as load:
        size, bed = load.size, load.bed
        own = heddle(load.own)
        others = [
            asyncio_fifo(load.fifo),
            *(_on(name, LIFTED, load) for name in FRAMEWORKS),
            Contender("barrier", load.fifo, StageBarrier.on),
        ]
        blocks = bed.asks(size.asks, size.framework_blocks, LOAD * load.capacity_per_s, 3)
        ran = await in_turns([own, *others], CELL, blocks, bed.journal)
        taken = latencies_of(ran, CELL)
        figures = figures_of(taken)
        for one in others:
            name = one.name if one.name in FRAMEWORKS else ""
            p50 = ratio(taken[OWN], taken[one.name], median, seed)
            key = f"x_lifted_{name}_heavy" if name else f"x_{one.name}_p50_heavy"
            figures |= {key: p50.value, f"{key}_low95": p50.low95}
            figures[f"x_p99_{one.name}"] = ratio(taken[OWN], taken[one.name], p99, seed).value
        shipped = []
        for name in FRAMEWORKS:
            defaults = import_module(f"benchmarks.contenders.{name}_workflows").DEFAULTS
            shipped.append(_on(name, frozenset(defaults), load, " as shipped"))
            figures |= await _capacities(name, defaults, load)
            slower = LOAD * load.capacity_per_s / (SHIPPED_LOAD * figures[f"capacity_{name}"])
            later = [replace(ask, at_s=ask.at_s * slower) for ask in blocks[0]]
            ran_once = await run_block(shipped[-1], f"{CELL} as shipped", 0, later, bed.journal)
            figures[f"p50_s_{name}_shipped"] = median(ran_once.block.latencies_s)
            ran.append(ran_once)
        figures |= check_same_work(own, others, shipped)
        return result(load, ran, figures, HEADLINE)


def _on(name: str, defaults: Defaults, load: HeavyLoad, suffix: str = "") -> Contender:
    """Return the workflows on a framework with these defaults in force."""
    make: MakePrograms = import_module(f"benchmarks.contenders.{name}_workflows").programs
    return Contender(f"{name}{suffix}", load.fifo, programmed(partial(make, defaults)))


async def _capacities(name: str, defaults: Sequence[Default], load: HeavyLoad) -> dict[str, float]:
    """Return a framework's throughput as it ships, lifted, and with each default alone [1/s].

    The default that leaves the least is printed. A timeout limits no throughput.
    """
    saturating = load.bed.asks(load.size.shipped, 1, 0.0, 5)[0]

    async def capacity(*in_force: Default) -> float:
        suffix = "+".join(default.name.lower() for default in in_force)
        contender = _on(name, frozenset(in_force), load, f" {suffix or 'lifted'}")
        return await load.bed.capacity_per_s(contender, saturating)

    lifted_per_s = await capacity()
    alone = {one: await capacity(one) for one in defaults if one is not Default.TIMEOUT}
    shipped_per_s = await capacity(*defaults)
    costs_most = min(alone, key=lambda one: alone[one])
    listed = ", ".join(f"{one.value}: {per_s:.2f}" for one, per_s in alone.items())
    print(
        f"{name} as shipped: {shipped_per_s:.2f} questions/s, lifted {lifted_per_s:.2f}; with one "
        f"default alone: {listed}; costs most: {costs_most.value}",
        flush=True,
    )
    found = {f"capacity_{name}_{one.name.lower()}": per_s for one, per_s in alone.items()}
    return {f"capacity_{name}": shipped_per_s, f"capacity_{name}_lifted": lifted_per_s, **found}
