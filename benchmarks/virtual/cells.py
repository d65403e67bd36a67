"""Contenders at one load of one mix on one virtual machine, and how they compare."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.coscheduling.ratios import p99
from benchmarks.virtual.load import Corpus, Taken
from benchmarks.virtual.scripts import FIVE, TEN
from benchmarks.virtual.server import Way

LOAD: Final = 0.8
MIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "five": FIVE,
    "ten": TEN,
    "pairs": ("oneshot", "multistep"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A contender at one load of one mix: its median and 99th percentile for each seed [s].

    `workflow_p99_s` are those of each workflow over all seeds.
    """

    corpus: str
    mix: str
    load: float
    contender: str
    requests: int
    p50_s: tuple[float, ...]
    p99_s: tuple[float, ...]
    workflow_p99_s: Mapping[str, float]


def cells(
    corpus: Corpus,
    name: str,
    mix: str,
    load: float,
    size: tuple[int, int],
    seed: int,
    ways: Mapping[str, Way],
) -> list[Cell]:
    """Run each way of scheduling on the same arrivals, and print what requests took."""
    seeds, requests = size
    found = []
    for contender, way in ways.items():
        started_s = time.perf_counter()
        runs = [
            corpus.run(way, MIXES[mix], load, requests, seed + number) for number in range(seeds)
        ]
        cell = Cell(
            name,
            mix,
            load,
            contender,
            requests,
            tuple(statistics.median(run.seconds) for run in runs),
            tuple(p99(run.seconds) for run in runs),
            {workflow: p99(_of(runs, workflow)) for workflow in MIXES[mix]},
        )
        found.append(cell)
        speed = seeds * requests / (time.perf_counter() - started_s)
        print(
            f"{name:<5} {mix:<5} load {load}: {contender:<24} "
            f"p50 {statistics.median(cell.p50_s):.3f} s, p99 {statistics.median(cell.p99_s):.3f} s "
            f"({speed:.0f} requests/s)",
            flush=True,
        )
    return found


def _of(runs: Sequence[Taken], workflow: str) -> list[float]:
    """Return how long the requests of one workflow took in all runs [s]."""
    return [
        seconds
        for run in runs
        for name, seconds in zip(run.names, run.seconds, strict=True)
        if name == workflow
    ]


def cell_of(table: Sequence[Cell], corpus: str, mix: str, load: float, contender: str) -> Cell:
    """Return a contender's cell."""
    place = corpus, mix, load, contender
    return next(c for c in table if (c.corpus, c.mix, c.load, c.contender) == place)


def x_p50(own: Cell, other: Cell) -> float:
    """Return the other's p50 over one's own: the median over the seeds, above 1 = own is faster."""
    return statistics.median(b / a for a, b in zip(own.p50_s, other.p50_s, strict=True))


def x_p99(own: Cell, other: Cell) -> float:
    """Return the other's p99 over one's own: the median over the seeds."""
    return statistics.median(b / a for a, b in zip(own.p99_s, other.p99_s, strict=True))
