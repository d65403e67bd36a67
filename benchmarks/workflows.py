"""Latency of HedraRAG's five workflows under load, beside asyncio programs on the same engines.

* asyncio_fifo: the workflows written by hand on engines that serve calls as they come: what users
  have today. Sub-questions are searched together, the prefix cache is on.
* asyncio_same: the same programs on Heddle's engines, which serve the shortest call first.
* heddle: the runtime on those engines, exact.

Two corpora: *light*, 46,000 Wikipedia passages in the default index (quick: 2,000), and *heavy*,
the same passages among 4,000,000 vectors in inverted lists, of which a search scans 64 to 512
times a factor, drawn log-uniformly; the factor is found first, so that searches take 40 % of what
engines work for an unloaded oneshot. Real questions, the reader as LLM in float32. Arrivals are
Poisson at 0.8 of the capacity of asyncio_fifo, which is its throughput with 16 in flight.
Blocks of the same arrivals go to all contenders, in turns whose order is reversed each time; lanes
are drained in between. Every block has a prefix cache of its own. A block in which other guests of
the machine took over 5 % of its time is run again, once.

The run fails where contenders' generations differ anywhere but at a near-tie, where one has prompts
that another lacks, where a frame was lost, or where anything was retried. x_* are the other's
latency over heddle's, above 1 = heddle is faster; `_low95` is the lower bound of a paired bootstrap
over the blocks. `search_share_*`: of the engines' time of an unloaded oneshot, that of its search.

`--simulated` runs the contenders on the virtual clock instead, over more workflows and loads; see
`benchmarks/virtual/simulated.py`. It is calibrated by the work that a run here records.
"""

import asyncio
import itertools
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.coscheduling.asks import DEFAULT_NPROBES, NPROBES, Ask, Nprobes, blocks_of
from benchmarks.coscheduling.contenders import DRIVERS, capacity_per_s, latencies_s
from benchmarks.coscheduling.generations import Generations, differences, unmatched
from benchmarks.coscheduling.heavy_index import heavy_index, lists_of
from benchmarks.coscheduling.lane_set import LaneSet, lane_set
from benchmarks.coscheduling.near_ties import near_ties
from benchmarks.coscheduling.ratios import median, p99, ratio
from benchmarks.coscheduling.stolen import Stolen
from benchmarks.support.data import rows
from benchmarks.support.wiki_index import WikiIndex, wiki_index
from benchmarks.virtual.simulated import run_simulated
from heddle.app.assembly.lanes import VECTOR
from heddle.app.models.model_source import model_directory
from heddle.core.errors import InternalError

CORPORA: Final = ("light", "heavy")
FIFO: Final = "asyncio_fifo"
OWN: Final = "heddle"
LOAD: Final = 0.8
IN_FLIGHT: Final = 16
SEARCH_SHARE: Final = 0.4
CALIBRATIONS: Final = 2
STOLEN_MAX: Final = 0.05
SHARED: Final = {"dtype": "float32", "max_num_batched_tokens": 512}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured; `vectors` of the heavy corpus."""

    vectors: int
    blocks: int
    asks: int
    saturating: int
    alone: int


FULL: Final = Size(4_000_000, 8, 60, 120, 14)
QUICK: Final = Size(40_000, 1, 5, 5, 2)


@dataclass(frozen=True, slots=True)
class Block:
    """One contender's block: how long each ask took [s], the share of time that was stolen."""

    corpus: str
    contender: str
    number: int
    latencies_s: tuple[float, ...]
    stolen: float


def run(
    quick: bool, seed: int, simulated: bool = False, calibration: Path | None = None
) -> dict[str, object]:
    """Measure all contenders on both corpora, in turns, or simulate them."""
    if simulated:
        return run_simulated(quick, seed, calibration)
    size = QUICK if quick else FULL
    wiki = wiki_index(quick)
    questions = [row["question"] for name in (wiki.single, wiki.multihop) for row in rows(name)]
    table: list[Block] = []
    facts: dict[str, dict[str, float]] = {}
    recorded: dict[str, object] = {"questions": len(questions)}
    for corpus in CORPORA:
        heavy = heavy_index(wiki, size.vectors, seed) if corpus == "heavy" else None
        with ExitStack() as started:
            lanes = _lanes(started, wiki, heavy)
            cell = Cell(corpus, lanes, questions, size, seed)
            asyncio.run(cell.measure())
        table += cell.blocks
        facts[corpus] = cell.facts
        recorded[corpus] = cell.recorded
        print(f"{corpus}: {', '.join(f'{name} {value:.3g}' for name, value in cell.facts.items())}")
    return {
        "settings": {
            **asdict(size),
            "load": LOAD,
            **SHARED,
            "corpora": facts,
            "recorded": recorded,
        },
        "rows": [asdict(block) for block in table],
        "headline": _headline(table, facts, seed),
    }


def prepare(quick: bool, seed: int) -> None:
    """Build the indexes, so that a run only measures."""
    heavy_index(wiki_index(quick), (QUICK if quick else FULL).vectors, seed)


def _lanes(started: ExitStack, wiki: WikiIndex, heavy: Path | None) -> Mapping[str, LaneSet]:
    """Start the engines: a set that serves calls as they come, and Heddle's own."""
    fifo = started.enter_context(lane_set(wiki.directory, heavy, **SHARED, batching="blind"))
    own = started.enter_context(lane_set(wiki.directory, heavy, **SHARED))
    return {name: fifo if name == FIFO else own for name in DRIVERS}


class Cell:
    """All contenders on one corpus.

    Attributes:
        blocks: what was measured.
        facts: the capacity of asyncio_fifo, the search share, and how often generations differed.
    """

    def __init__(
        self,
        corpus: str,
        lanes: Mapping[str, LaneSet],
        questions: Sequence[str],
        size: Size,
        seed: int,
    ) -> None:
        self.blocks: list[Block] = []
        self.facts: dict[str, float] = {}
        self._corpus, self._lanes, self._questions = corpus, lanes, questions
        self._size, self._seed = size, seed
        self._nprobes: Nprobes = DEFAULT_NPROBES
        self._generations = {name: Generations() for name in DRIVERS}

    @property
    def recorded(self) -> dict[str, object]:
        """What Heddle's blocks made the engines do, and what that took."""
        return self._generations[OWN].work.as_json()

    async def measure(self) -> None:
        """Find the capacity, then run the blocks, and compare what was generated.

        Raises:
            InternalError: the contenders did not do the same work.
        """
        size = self._size
        if self._corpus == "heavy":
            await self._make_heavy()
        for name in DRIVERS:
            self.facts[f"search_share_{name}"] = await self._search_share(name, f"alone-{name}")
        saturating = self._asks(size.saturating, 1, 0.0, 2)[0]
        driver = DRIVERS[FIFO](self._lanes[FIFO], "saturated", Generations())
        in_flight = min(IN_FLIGHT, size.saturating // 2)
        self.facts["capacity_per_s"] = await capacity_per_s(driver, saturating, in_flight)
        await driver.end()
        rate_per_s = LOAD * self.facts["capacity_per_s"]
        for number, asks in enumerate(self._asks(size.asks, size.blocks, rate_per_s, 3)):
            order = list(DRIVERS) if number % 2 == 0 else list(DRIVERS)[::-1]
            for name in order:
                await self._block(name, number, asks)
        self._compare()

    def _asks(self, count: int, blocks: int, rate_per_s: float, draw: int) -> list[list[Ask]]:
        questions, seed = self._questions, self._seed + draw
        return blocks_of(questions, count, blocks, rate_per_s, seed, self._nprobes)

    async def _make_heavy(self) -> None:
        """Find how many lists searches have to scan to take their share of a oneshot."""
        self._nprobes = NPROBES
        most = lists_of(self._size.vectors)
        factor = 1.0
        for attempt in range(CALIBRATIONS):
            share = await self._search_share(FIFO, f"calibration {attempt}")
            factor *= SEARCH_SHARE / (1 - SEARCH_SHARE) / (share / (1 - share))
            self._nprobes = [min(most, round(factor * nprobe)) for nprobe in NPROBES]
            print(f"search share {share:.3f}, so lists scanned: {self._nprobes}", flush=True)
        self.facts["nprobe_factor"] = factor

    async def _search_share(self, name: str, salt: str) -> float:
        """Return the share of search in the engines' time of oneshots, one after the other."""
        generations = Generations()
        driver = DRIVERS[name](self._lanes[name], salt, generations)
        asks = self._asks(self._size.alone, 1, 0.0, 1)[0]
        for ask, nprobe in zip(asks, itertools.cycle(self._nprobes), strict=False):
            await driver.answer(Ask("oneshot", ask.question, nprobe, 0.0))
        await driver.end()
        return generations.worked_s[VECTOR] / sum(generations.worked_s.values())

    async def _block(self, name: str, number: int, asks: list[Ask]) -> None:
        for attempt in range(2):
            salt = f"{number}-{attempt}-{name}"
            driver = DRIVERS[name](self._lanes[name], salt, self._generations[name])
            with Stolen() as stolen:
                taken_s = await latencies_s(driver.answer, asks)
            await driver.end()
            if stolen.share <= STOLEN_MAX:
                break
        block = Block(self._corpus, name, number, tuple(taken_s), stolen.share)
        self.blocks.append(block)
        print(
            f"{self._corpus:<5} {name:<13} block {number}: p50 {median(taken_s):.3f} s, "
            f"worst {max(taken_s):.3f} s, stolen {stolen.share:.1%}",
            flush=True,
        )

    def _compare(self) -> None:
        """Compare what the contenders have generated from which prompts."""
        own = self._generations[OWN]
        others = [self._generations[name] for name in DRIVERS if name != OWN]
        found = [one for other in others for one in differences(own, other)]
        lacking = sum(unmatched(own, other) for other in others)
        ties = near_ties(found, model_directory("reader"))
        self.facts["generations"] = float(len(own.outputs))
        self.facts["near_ties"] = float(sum(ties))
        if not all(ties) or (lacking and not ties):
            raise InternalError(
                f"the contenders did not do the same work: {len(found)} generations differ, "
                f"{sum(ties)} of them at a near-tie, and {lacking} prompts are one contender's only"
            )


def _headline(
    table: Sequence[Block], facts: Mapping[str, Mapping[str, float]], seed: int
) -> dict[str, float]:
    found: dict[str, float] = {}
    for corpus in CORPORA:
        taken = {
            name: [b.latencies_s for b in table if (b.corpus, b.contender) == (corpus, name)]
            for name in DRIVERS
        }
        for name in DRIVERS:
            if name == OWN:
                continue
            short = name.removeprefix("asyncio_")
            p50 = ratio(taken[OWN], taken[name], median, seed)
            found[f"x_{short}_p50_{corpus}"] = p50.value
            found[f"x_{short}_p50_{corpus}_low95"] = p50.low95
            found[f"x_{short}_p99_{corpus}"] = ratio(taken[OWN], taken[name], p99, seed).value
        found[f"search_share_{corpus}"] = facts[corpus][f"search_share_{OWN}"]
    generations = sum(facts[corpus]["generations"] for corpus in CORPORA)
    found["near_ties"] = sum(facts[corpus]["near_ties"] for corpus in CORPORA) / generations
    found["tokens_equal"] = 1.0  # else the run has failed
    found["stolen"] = statistics.fmean(block.stolen for block in table)
    return found
