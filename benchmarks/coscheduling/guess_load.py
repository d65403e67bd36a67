"""`--speculate`: Heddle with prompts computed ahead of their searches, and without, on real lanes.

Heavy corpus, the five workflows, at 0.3 and 0.8 of asyncio_fifo's capacity. Both contenders drive
the same lanes by the same runtime; one may speculate, as by `speculate=auto`, and the other may
not. `x_off_p50_*` are the latencies without over those with it, above 1 = it pays. On the virtual
clock, beside other policies: `heddle bench speculation`.
"""

import asyncio
from typing import Any, Final

from benchmarks.coscheduling.blocks import Contender, Ran, in_turns, latencies_of
from benchmarks.coscheduling.contenders import HeddleServer, Reuse
from benchmarks.coscheduling.heavy_load import check_same_work, figures_of, heavy_load, result
from benchmarks.coscheduling.ratios import median, p99, ratio

LOADS: Final = (0.3, 0.8)
ON: Final = "heddle"
OFF: Final = "heddle_never"


def measured(quick: bool, seed: int) -> dict[str, Any]:
    """Measure both at both loads.

    Raises:
        InternalError: contenders did not do the same work.
    """
    return asyncio.run(_measured(quick, seed))


async def _measured(quick: bool, seed: int) -> dict[str, Any]:
    async with heavy_load(quick, seed, "speculate") as load:
        told = Reuse()
        on = Contender(ON, load.own, HeddleServer(reuse=told, speculates=True))
        off = Contender(OFF, load.own, HeddleServer(speculates=False))
        ran: list[Ran] = []
        figures: dict[str, float] = {}
        size = load.size
        for draw, share in enumerate(LOADS):
            cell = f"load {share}"
            blocks = load.bed.asks(
                size.sweep_asks, size.blocks, share * load.capacity_per_s, 300 + draw
            )
            ran += await in_turns([on, off], cell, blocks, load.bed.journal)
            taken = latencies_of(ran, cell)
            key = f"{share:g}".replace(".", "")
            figures |= {f"{name}_{key}": value for name, value in figures_of(taken).items()}
            p50 = ratio(taken[ON], taken[OFF], median, seed)
            figures[f"x_off_p50_{key}"] = p50.value
            figures[f"x_off_p50_{key}_low95"] = p50.low95
            figures[f"x_off_p99_{key}"] = ratio(taken[ON], taken[OFF], p99, seed).value
        figures |= {"guesses": float(told.guesses), "guesses_won": float(told.won)}
        figures |= check_same_work(on, [off])
        headline = [name for name in figures if name.startswith(("x_", "guesses", "near_ties"))]
        return result(load, ran, figures, headline)
