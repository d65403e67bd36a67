"""The heavy corpus with both sets of engines started: where frameworks, mixes and sweeps run."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.coscheduling.bed import Bed, asyncio_fifo
from benchmarks.coscheduling.blocks import Contender, Ran
from benchmarks.coscheduling.corpora import HEAVY, Corpora
from benchmarks.coscheduling.fifo_setting import FifoSetting
from benchmarks.coscheduling.journal import Journal
from benchmarks.coscheduling.lane_set import LaneSet
from benchmarks.coscheduling.ratios import median, p99
from benchmarks.coscheduling.same_work import same_work
from benchmarks.coscheduling.sizes import Size, size_of

LOAD: Final = 0.8


@dataclass(frozen=True, slots=True)
class HeavyLoad:
    """Engines over the heavy corpus, and the throughput of asyncio_fifo on them [1/s].

    Args:
        bed: the corpus; its searches take their share of a oneshot.
        size: how much is measured.
        fifo: engines that serve calls as they come, set at their best.
        own: Heddle's.
        setting: of asyncio_fifo's engines; Heddle's have its prompt chunk.
        capacity_per_s: of asyncio_fifo.
    """

    bed: Bed
    size: Size
    fifo: LaneSet
    own: LaneSet
    setting: FifoSetting
    capacity_per_s: float

    def record(self, figures: Mapping[str, float]) -> dict[str, object]:
        """Return the settings of a run as its results have them."""
        return {
            **asdict(self.size),
            "load": LOAD,
            "capacity_per_s": self.capacity_per_s,
            "nprobes": list(self.bed.nprobes),
            "tried": [one.record() for one in self.bed.tried],
            "figures": dict(figures),
        }


@asynccontextmanager
async def heavy_load(quick: bool, seed: int, run: str) -> AsyncIterator[HeavyLoad]:
    """Start the engines over the heavy corpus, the FIFO ones at their best.

    Args:
        quick: a short run.
        seed: of every draw.
        run: names the journal.
    """
    size = size_of(quick)
    bed = Corpora.of(quick, size, seed).bed(HEAVY, Journal(f"workflows-{run}"))
    setting = await bed.choose_fifo()
    with bed.fifo_lanes(setting) as fifo, bed.own_lanes(setting) as own:
        saturating = bed.asks(size.saturating, 1, 0.0, 2)[0]
        capacity = await bed.capacity_per_s(asyncio_fifo(fifo), saturating)
        print(f"capacity of asyncio_fifo: {capacity:.2f} questions/s", flush=True)
        yield HeavyLoad(bed, size, fifo, own, setting, capacity)


def result(
    load: HeavyLoad, ran: Sequence[Ran], figures: Mapping[str, float], headline: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what `heddle bench` prints and writes; without a headline, all figures are in it."""
    load.bed.journal.note("figures", figures)
    for name, value in figures.items():
        print(f"{name:<40} {value:.4g}")
    return {
        "settings": load.record(figures),
        "rows": [asdict(one.block) for one in ran],
        "headline": {name: figures[name] for name in headline or figures},
    }


def check_same_work(
    own: Contender, others: Sequence[Contender], some: Sequence[Contender] = ()
) -> dict[str, float]:
    """Compare all generations; return how many there were and how many part at a near-tie.

    Args:
        own: whom the others are compared with.
        others: ran the same blocks.
        some: ran some of these blocks.

    Raises:
        InternalError: contenders did not do the same work.
    """
    same = same_work(own, others, some)
    return {"generations": float(same.generations), "near_ties": same.near_ties / same.generations}


def figures_of(latencies_s: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    """Return p50 and p99 of each contender [s]."""
    found: dict[str, float] = {}
    for name, blocks in latencies_s.items():
        every = [seconds for block in blocks for seconds in block]
        found |= {f"p50_s_{name}": median(every), f"p99_s_{name}": p99(every)}
    return found
