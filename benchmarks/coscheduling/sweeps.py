"""`--ratio` and `--nprobe`: mixes of two workflows, and searches of several lengths.

Heavy corpus, asyncio_fifo and heddle, each row at 0.8 of asyncio_fifo's capacity for that row.

* --ratio: oneshot with multistep and with irg, in shares of 3:1, 1:1 and 1:3 (HedraRAG figs. 15 and
  16).
* --nprobe: all searches scan as many lists, 128, 256 or 512 (HedraRAG fig. 13) times the factor
  that makes the corpus heavy.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.coscheduling.asks import NPROBES, WORKFLOWS, Nprobes
from benchmarks.coscheduling.bed import FIFO, OWN, asyncio_fifo, heddle
from benchmarks.coscheduling.blocks import Ran, in_turns, latencies_of
from benchmarks.coscheduling.heavy_load import (
    LOAD,
    HeavyLoad,
    check_same_work,
    figures_of,
    heavy_load,
    result,
)
from benchmarks.coscheduling.ratios import median, p99, ratio

BESIDE: Final = ("multistep", "irg")
SHARES: Final = ((3, 1), (1, 1), (1, 3))
SWEPT: Final = (128, 256, 512)


def ratios_measured(quick: bool, seed: int) -> dict[str, Any]:
    """Measure pairs of workflows in several ratios.

    Raises:
        InternalError: contenders did not do the same work.
    """
    return asyncio.run(_ratios(quick, seed))


def nprobes_measured(quick: bool, seed: int) -> dict[str, Any]:
    """Measure searches of several lengths.

    Raises:
        InternalError: contenders did not do the same work.
    """
    return asyncio.run(_nprobes(quick, seed))


async def _ratios(quick: bool, seed: int) -> dict[str, Any]:
    async with heavy_load(quick, seed, "ratio") as load:
        rows = {
            f"{oneshot}:{others} {name}": ["oneshot"] * oneshot + [name] * others
            for name in BESIDE
            for oneshot, others in SHARES
        }
        sweep = Sweep(load, seed)
        for number, (name, mix) in enumerate(rows.items()):
            await sweep.row(name, mix, load.bed.nprobes, number)
        return sweep.result()


async def _nprobes(quick: bool, seed: int) -> dict[str, Any]:
    async with heavy_load(quick, seed, "nprobe") as load:
        scanned = dict(zip(NPROBES, load.bed.nprobes, strict=True))
        sweep = Sweep(load, seed)
        for number, nprobe in enumerate(SWEPT):
            await sweep.row(f"nprobe {nprobe}", WORKFLOWS, [scanned[nprobe]], number)
        return sweep.result()


class Sweep:
    """Rows of asyncio_fifo and heddle under loads of different kinds."""

    def __init__(self, load: HeavyLoad, seed: int) -> None:
        self._load, self._seed = load, seed
        self._fifo, self._own = asyncio_fifo(load.fifo), heddle(load.own)
        self._ran: list[Ran] = []
        self._figures: dict[str, float] = {}

    async def row(self, cell: str, mix: Sequence[str], nprobes: Nprobes, draw: int) -> None:
        """Measure one row.

        Args:
            cell: names it.
            mix: workflows, in equal shares.
            nprobes: how many lists its searches scan.
            draw: other than that of the other rows.
        """
        bed, size = self._load.bed, self._load.size
        bed.nprobes = nprobes
        saturating = bed.asks(size.calibrating, 1, 0.0, 100 + draw, mix)[0]
        capacity = await bed.capacity_per_s(self._fifo, saturating)
        blocks = bed.asks(size.sweep_asks, size.sweep_blocks, LOAD * capacity, 200 + draw, mix)
        self._ran += await in_turns([self._fifo, self._own], cell, blocks, bed.journal)
        taken = latencies_of(self._ran, cell)
        found = {f"capacity_{FIFO}": capacity, **figures_of(taken)}
        found["x_fifo_p50"] = ratio(taken[OWN], taken[FIFO], median, self._seed).value
        found["x_fifo_p99"] = ratio(taken[OWN], taken[FIFO], p99, self._seed).value
        key = cell.replace(" ", "_").replace(":", "_to_")
        self._figures |= {f"{name}_{key}": value for name, value in found.items()}

    def result(self) -> dict[str, Any]:
        """Compare all generations, and return what was measured.

        Raises:
            InternalError: contenders did not do the same work.
        """
        self._figures |= check_same_work(self._own, [self._fifo])
        headline = [name for name in self._figures if name.startswith(("x_", "near_ties"))]
        return result(self._load, self._ran, self._figures, headline)
