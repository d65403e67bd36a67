"""`heddle bench workflows --simulated`: its contenders on the virtual clock.

The real runtime, passes and engines' schedulers, on devices that take time and compute nothing
(docs/development/simulator.md). asyncio_fifo and asyncio_same are hand-written programs, on engines
that serve calls as they come and on Heddle's (`benchmarks/virtual/contenders.py` says why that is
the runtime without passes). The machine is calibrated by a real run (`--calibration FILE`, default
docs/results/coscheduling-calibration.json), and the run fails where it doesn't reproduce the p50 of
each contender on each corpus within 15 %.

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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.virtual.cells import LOAD, MIXES, Cell, cell_of, cells, x_p50
from benchmarks.virtual.contenders import FIFO, OWN, SAME, WAYS
from benchmarks.virtual.corpora import Corpora
from benchmarks.virtual.scripts import TEN

LOADS: Final = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)
HEADLINE: Final = (("heavy", "five"), ("heavy", "ten"), ("gpu", "pairs"))


@dataclass(frozen=True, slots=True)
class Size:
    """Seeds and requests of the cells of the headline, and of the others."""

    headline: tuple[int, int]
    others: tuple[int, int]
    loads: tuple[float, ...] = LOADS

    def of(self, corpus: str, mix: str, load: float) -> tuple[int, int]:
        """Return the seeds and requests of a cell."""
        is_headline = load == LOAD and (corpus, mix) in HEADLINE
        return self.headline if is_headline else self.others


UNCUT: Final = Size((5, 1_000), (5, 1_000))
"""What every cell would have if time were no matter; the run prints its own."""
FULL: Final = Size((5, 200), (1, 80))
QUICK: Final = Size((1, 30), (1, 20), (LOAD,))


def run_simulated(quick: bool, seed: int, calibration: Path | None) -> dict[str, object]:
    """Calibrate the machines and run every cell.

    Raises:
        InternalError: the machines do not reproduce the real cells.
    """
    size, corpora = QUICK if quick else FULL, Corpora.calibrated(calibration)
    print(f"seeds and requests: {size}; cut from {UNCUT}")
    table = []
    for (name, corpus), mix, load in itertools.product(corpora.by_name.items(), MIXES, size.loads):
        table += cells(corpus, name, mix, load, size.of(name, mix, load), seed, WAYS)
    capacities = {
        f"{name} {mix}": corpus.capacity_per_s(MIXES[mix])
        for name, corpus in corpora.by_name.items()
        for mix in MIXES
    }
    return {
        "settings": {
            **corpora.facts,
            "capacities_per_s": capacities,
            "size": asdict(size),
            "size_uncut": asdict(UNCUT),
        },
        "rows": [asdict(cell) for cell in table],
        "headline": _headline(table),
    }


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
