"""`--offline`: all questions at once, and how many are answered a second until the last one is.

Heavy corpus, the five workflows in equal shares: heddle, asyncio_fifo and the stage barrier, which
is how offline pipelines run (FlashRAG).

Source: HedraRAG fig. 14.
"""

import asyncio
from typing import Any, Final

from benchmarks.coscheduling.bed import FIFO, OWN, asyncio_fifo, heddle
from benchmarks.coscheduling.blocks import Contender, in_turns, latencies_of
from benchmarks.coscheduling.heavy_load import check_same_work, heavy_load, result
from benchmarks.coscheduling.stage_barrier import StageBarrier

CELL: Final = "offline"


def measured(quick: bool, seed: int) -> dict[str, Any]:
    """Measure how long all questions together take.

    Raises:
        InternalError: contenders did not do the same work.
    """
    return asyncio.run(_measure(quick, seed))


async def _measure(quick: bool, seed: int) -> dict[str, Any]:
    async with heavy_load(quick, seed, CELL) as load:
        size, bed = load.size, load.bed
        own, fifo = heddle(load.own), asyncio_fifo(load.fifo)
        barrier = Contender("barrier", load.fifo, StageBarrier.on)
        blocks = bed.asks(size.at_once, size.sweep_blocks, 0.0, 7)
        ran = await in_turns([own, fifo, barrier], CELL, blocks, bed.journal)
        figures = check_same_work(own, [fifo, barrier])
        questions = sum(len(asks) for asks in blocks)
        # All came together, so the slowest one's latency is when the last answer was there.
        spent_s = {
            name: sum(max(seconds) for seconds in taken)
            for name, taken in latencies_of(ran, CELL).items()
        }
        figures |= {f"per_s_{name}": questions / seconds for name, seconds in spent_s.items()}
        figures |= {f"x_{name}_offline": spent_s[name] / spent_s[OWN] for name in (FIFO, "barrier")}
        return result(load, ran, figures)
