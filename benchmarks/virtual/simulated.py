"""`heddle bench workflows --simulated`: its contenders on the virtual clock.

The real runtime, passes and engines' schedulers, with engines that take time and compute nothing
(`benchmarks/virtual`). asyncio_fifo and asyncio_same are hand-written programs, on engines that
serve calls as they come and on Heddle's (`benchmarks/virtual/contenders.py` says why that is the
runtime without passes). The machine is calibrated by a real run (`--calibration FILE`, default
docs/results/coscheduling.json), and the run fails where it doesn't reproduce the p50 of each
contender on each corpus within 15 %.

Ten workflows: HedraRAG's five, Teola's four and FLARE. Mixes: `five`, `ten`, and `pairs` (oneshot
and multistep in equal shares). Loads are shares of asyncio_fifo's capacity on the same machine.
`gpu` is a roofline of an H100 with 8 billion parameters, and a search on all cores of the host: no
run has measured it.

x_* are the other's latency over heddle's at a load of 0.8, above 1 = heddle is faster: the median
over the seeds, each of which stands in the rows. `worst_workflow_p99`: the smallest such ratio of
p99 of a workflow in the mix `ten`, heavy, against asyncio_fifo. `gpu_pairs_p50`: the mix `pairs`
on the GPU's costs, against asyncio_fifo.
"""

import itertools
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.coscheduling.ratios import p99
from benchmarks.virtual.calibration import Calibration, Check, RealRun
from benchmarks.virtual.contenders import FIFO, OWN, SAME, WAYS
from benchmarks.virtual.load import Corpus, Taken
from benchmarks.virtual.machine import GPU
from benchmarks.virtual.scripts import FIVE, TEN, Script
from benchmarks.virtual.server import Way
from heddle.core.errors import InternalError

REAL: Final = Path("docs/results/coscheduling.json")
RECORD: Final = Path("benchmarks/virtual/recorded_work.json")
ERROR_MAX: Final = 0.15
LOADS: Final = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
LOAD: Final = 0.8
MIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "five": FIVE,
    "ten": TEN,
    "pairs": ("oneshot", "multistep"),
}
GPU_IN_FLIGHT: Final = 64
GPU_NPROBES: Final = (256,)
GPU_WRITTEN: Final = {"answer": 60, "imagine": 100, "decompose": 60, "compress": 128}
"""Mean tokens that a model of 8 billion parameters writes, by node; the rest as recorded."""


@dataclass(frozen=True, slots=True)
class Size:
    """Seeds and requests of each cell: `at_bar` at a load of 0.8, `elsewhere` at the others."""

    at_bar: tuple[int, int]
    elsewhere: tuple[int, int]
    loads: tuple[float, ...] = LOADS

    def of(self, load: float) -> tuple[int, int]:
        """Return the seeds and requests of a cell at this load."""
        return self.at_bar if load == LOAD else self.elsewhere


WHOLE: Final = Size((5, 1_000), (5, 1_000))
"""What every cell would have if time were no matter; the run prints what it has instead."""
FULL: Final = Size((3, 300), (1, 120))
QUICK: Final = Size((1, 30), (1, 20), (LOAD,))


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


def run_simulated(quick: bool, seed: int, calibration: Path | None) -> dict[str, object]:
    """Calibrate the machine, check it, and run every cell.

    Raises:
        InternalError: the machine does not reproduce the real cells.
    """
    size, real = QUICK if quick else FULL, calibration or REAL
    run = RealRun.read(real, RECORD)
    found = Calibration.of(run)
    corpora = {name: one.corpus for name, one in found.items()}
    checks = [check for one in found.values() for check in one.checks()]
    refuse(checks)
    corpora["gpu"] = on_gpu(corpora["light"])
    print(f"cut: {size}, of {WHOLE}")
    table = []
    for name, mix, load in itertools.product(corpora, MIXES, size.loads):
        table += cells(corpora[name], name, mix, load, size.of(load), seed, WAYS)
    return {
        "settings": {
            "calibration": str(real),
            "factors": {name: one.factors for name, one in found.items()},
            "capacities_per_s": {
                f"{name} {mix}": corpus.capacity_per_s(MIXES[mix])
                for name, corpus in corpora.items()
                for mix in MIXES
            },
            "checks": [asdict(check) for check in checks],
            "size": asdict(size),
            "size_uncut": asdict(WHOLE),
        },
        "rows": [asdict(cell) for cell in table],
        "headline": _headline(table),
    }


def refuse(checks: Sequence[Check]) -> None:
    """Print how the virtual machine compares with the real one.

    Raises:
        InternalError: it is off by more than 15 % somewhere.
    """
    for check in checks:
        print(
            f"{check.corpus:<5} {check.contender:<13} p50 real {check.real_s:.3f} s, "
            f"virtual {check.virtual_s:.3f} s: {check.error:+.0%}",
            flush=True,
        )
    wrong = [check for check in checks if abs(check.error) > ERROR_MAX]
    if wrong:
        said = ", ".join(f"{c.corpus} {c.contender} {c.error:+.0%}" for c in wrong)
        raise InternalError(
            f"the virtual machine does not reproduce the real cells within {ERROR_MAX:.0%}: {said}"
        )


def on_gpu(corpus: Corpus) -> Corpus:
    """Return the corpus's requests on a GPU, with texts as long as a larger model's."""
    scripts = {
        name: [_writing_more(script, known) for script in known]
        for name, known in corpus.scripts.items()
    }
    return Corpus(GPU, scripts, GPU_NPROBES, corpus.passages, GPU_IN_FLIGHT)


def _writing_more(script: Script, known: Sequence[Script]) -> Script:
    """Return a script whose texts have the GPU model's mean length over all of `known`."""
    for node, tokens in GPU_WRITTEN.items():
        written = [one.written(node) for one in known]
        if all(written):
            factor = tokens / statistics.fmean(written)
            script = script.writing(node, max(1, round(factor * script.written(node))))
    return script


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


def _headline(table: Sequence[Cell]) -> dict[str, float]:
    def at_bar(corpus: str, mix: str, contender: str) -> Cell:
        return cell_of(table, corpus, mix, LOAD, contender)

    own, fifo = (at_bar("heavy", "ten", name).workflow_p99_s for name in (OWN, FIFO))
    return {
        "x_same_p50_heavy": x_p50(at_bar("heavy", "five", OWN), at_bar("heavy", "five", SAME)),
        "x_fifo_p50_heavy_ten": x_p50(at_bar("heavy", "ten", OWN), at_bar("heavy", "ten", FIFO)),
        "worst_workflow_p99": min(fifo[name] / own[name] for name in TEN),
        "gpu_pairs_p50": x_p50(at_bar("gpu", "pairs", OWN), at_bar("gpu", "pairs", FIFO)),
    }
