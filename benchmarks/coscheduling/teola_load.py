"""`--teola`: what Teola compares itself with, over the same engines, on the heavy corpus.

LlamaDist runs a workflow's modules one after another and caches no prompt; in LlamaDistPC what can
run side by side does, and prompts share a prefix cache. Under PO an engine carries out one call at
a time, with all its rows; under TO it batches all that waits, as it came. So LlamaDistPC-TO is
asyncio_fifo. Both loads are shares of its capacity; a policy that can't take one has a queue that
grows until the block ends, and its latency says little more than that.

Source: Teola §7.
"""

import asyncio
from typing import Any, Final

from benchmarks.coscheduling.bed import OWN, heddle
from benchmarks.coscheduling.blocks import Contender, Ran, in_turns, latencies_of
from benchmarks.coscheduling.contenders import TEOLA
from benchmarks.coscheduling.heavy_load import check_same_work, figures_of, heavy_load, result
from benchmarks.coscheduling.ratios import median, ratio

LOADS: Final = (0.3, 0.8)


def measured(quick: bool, seed: int) -> dict[str, Any]:
    """Measure Teola's baselines at two loads.

    Raises:
        InternalError: contenders did not do the same work.
    """
    return asyncio.run(_measure(quick, seed))


async def _measure(quick: bool, seed: int) -> dict[str, Any]:
    async with heavy_load(quick, seed, "teola") as load:
        size, bed = load.size, load.bed
        own = heddle(load.own)
        others = [Contender(name, load.fifo, make) for name, make in TEOLA.items()]
        ran: list[Ran] = []
        figures: dict[str, float] = {}
        for number, share in enumerate(LOADS):
            cell, percent = f"load {share}", round(100 * share)
            rate_per_s = share * load.capacity_per_s
            blocks = bed.asks(size.sweep_asks, size.sweep_blocks, rate_per_s, 6 + number)
            ran += await in_turns([own, *others], cell, blocks, bed.journal)
            taken = latencies_of(ran, cell)
            found = figures_of(taken)
            for name in TEOLA:
                found[f"x_{name}_p50"] = ratio(taken[OWN], taken[name], median, seed).value
            figures |= {f"{name}_{percent}": value for name, value in found.items()}
        figures |= check_same_work(own, others)
        return result(load, ran, figures)
