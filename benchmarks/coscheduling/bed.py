"""One corpus under load: its lanes, the lists that its searches scan, and its capacity."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.coscheduling.asks import (
    DEFAULT_NPROBES,
    NPROBES,
    WORKFLOWS,
    Ask,
    Nprobes,
    blocks_of,
)
from benchmarks.coscheduling.blocks import Contender
from benchmarks.coscheduling.contenders import HAND, HeddleServer, capacity_per_s
from benchmarks.coscheduling.fifo_setting import FifoSetting, Tried, best_of, tried_settings
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.heavy_index import lists_of
from benchmarks.coscheduling.journal import Journal
from benchmarks.coscheduling.lane_set import LaneSet, lane_set
from benchmarks.coscheduling.search_calls import SearchCalls
from benchmarks.coscheduling.tried_twice import tried_twice
from heddle.app.assembly.lanes import VECTOR

IN_FLIGHT: Final = 16
SEARCH_SHARE: Final = 0.45  # both lanes then work about equally over the five workflows
CALIBRATIONS: Final = 3
FIFO: Final = "asyncio_fifo"
SAME: Final = "asyncio_same"
OWN: Final = "heddle"
_runs = itertools.count()  # each has a prefix cache of its own


@dataclass(slots=True)
class Bed:
    """A corpus and what is asked of it.

    Args:
        name: of the corpus.
        corpus: its directory.
        index: the folder of another index that is searched in its place; None = its own.
        vectors: how many the other index holds.
        questions: what is asked.
        seed: of every draw.
        alone: oneshots that the share of search is measured with.
        settings: ways to set the engines that are tried, at most.
        calibrating: questions that each of them is tried with.
        journal: takes in what is found.
        server: settings of all contenders' servers, besides those of how they serve.

    Mutates: `nprobes` by `make_heavy`, `tried` by `choose_fifo`.
    """

    name: str
    corpus: Path
    index: Path | None
    vectors: int
    questions: Sequence[str]
    seed: int
    alone: int
    settings: int
    calibrating: int
    journal: Journal
    server: Mapping[str, object] = field(default_factory=lambda: {"dtype": "float32"})
    nprobes: Nprobes = DEFAULT_NPROBES
    tried: list[Tried] = field(default_factory=list)

    def asks(
        self,
        count: int,
        blocks: int,
        rate_per_s: float,
        draw: int,
        mix: Sequence[str] = WORKFLOWS,
    ) -> list[list[Ask]]:
        """Return arrivals; those of another `draw` are others."""
        seed = self.seed + draw
        return blocks_of(self.questions, count, blocks, rate_per_s, seed, self.nprobes, mix)

    @contextmanager
    def fifo_lanes(self, setting: FifoSetting) -> Iterator[LaneSet]:
        """Start engines that serve calls as they come."""
        with lane_set(
            self.corpus,
            self.index,
            setting.calls,
            is_llm_everywhere=setting.is_llm_everywhere,
            is_retrieval_everywhere=setting.is_retrieval_everywhere,
            lend_cores=False,
            max_num_batched_tokens=setting.prompt_chunk,
            batching="blind",
            **self.server,
        ) as lanes:
            yield lanes

    @contextmanager
    def own_lanes(
        self, setting: FifoSetting, corpus: Path | None = None, **settings: object
    ) -> Iterator[LaneSet]:
        """Start Heddle's engines, with the prompt chunk of the others.

        Args:
            setting: of the others.
            corpus: a copy of the corpus; None = the corpus itself.
            settings: more of the server's.
        """
        with lane_set(
            corpus or self.corpus,
            self.index,
            SearchCalls.SUBSTAGES,
            max_num_batched_tokens=setting.prompt_chunk,
            **self.server,
            **settings,
        ) as lanes:
            yield lanes

    async def choose_fifo(self) -> FifoSetting:
        """Try settings of the engines that serve calls as they come; return the best.

        Mutates: `tried`; and the first time over a heavy index, `nprobes`.
        """
        asks: list[Ask] = []

        async def measure(setting: FifoSetting) -> float:
            with self.fifo_lanes(setting) as lanes:
                contender = Contender(FIFO, lanes, HAND)
                if self.index is not None and self.nprobes is DEFAULT_NPROBES:
                    await self._make_heavy(contender)
                if not asks:
                    asks.extend(self.asks(self.calibrating, 1, 0.0, 4)[0])
                return await self.capacity_per_s(contender, asks)

        self.tried = await tried_settings(measure, self.settings)
        for one in self.tried:
            self.journal.note("tried", {"cell": self.name, **one.record()})
        setting = best_of(self.tried)
        print(f"{self.name}: {FIFO} has {setting.words}", flush=True)
        return setting

    async def capacity_per_s(self, contender: Contender, asks: Sequence[Ask]) -> float:
        """Return a contender's throughput with sixteen questions in flight [1/s].

        Raises:
            InternalError: it failed twice.
        """

        async def run() -> float:
            driver = contender.make(contender.lanes, f"saturated-{next(_runs)}", Generations())
            per_s = await capacity_per_s(driver, asks, min(IN_FLIGHT, max(1, len(asks) // 2)))
            await driver.end()
            return per_s

        per_s = await tried_twice(f"{self.name} capacity of {contender.name}", run, self.journal)
        self.journal.note(
            "capacity", {"cell": self.name, "contender": contender.name, "per_s": per_s}
        )
        return per_s

    async def search_share(self, contender: Contender) -> float:
        """Return the share of search in the engines' time of oneshots, one after the other.

        Raises:
            InternalError: it failed twice.
        """
        asks = self.asks(self.alone, 1, 0.0, 1)[0]

        async def run() -> float:
            generations = Generations()
            driver = contender.make(contender.lanes, f"alone-{next(_runs)}", generations)
            for ask, nprobe in zip(asks, itertools.cycle(self.nprobes), strict=False):
                await driver.answer(Ask("oneshot", ask.question, nprobe, 0.0))
            await driver.end()
            return generations.worked_s[VECTOR] / sum(generations.worked_s.values())

        what = f"{self.name} search share of {contender.name}"
        return await tried_twice(what, run, self.journal)

    async def _make_heavy(self, contender: Contender) -> None:
        """Find how many lists searches have to scan to take their share of a oneshot."""
        self.nprobes = NPROBES
        most, factor = lists_of(self.vectors), 1.0
        for _ in range(CALIBRATIONS):
            share = await self.search_share(contender)
            factor *= SEARCH_SHARE / (1 - SEARCH_SHARE) / (share / (1 - share))
            self.nprobes = [min(most, round(factor * nprobe)) for nprobe in NPROBES]
            print(f"search share {share:.3f}, so lists scanned: {self.nprobes}", flush=True)
        self.journal.note("lists scanned", {"cell": self.name, "nprobes": self.nprobes})


def asyncio_fifo(lanes: LaneSet) -> Contender:
    """Return asyncio programs on engines that serve calls as they come."""
    return Contender(FIFO, lanes, HAND)


def asyncio_same(lanes: LaneSet) -> Contender:
    """Return the same programs on Heddle's engines."""
    return Contender(SAME, lanes, HAND)


def heddle(lanes: LaneSet) -> Contender:
    """Return Heddle's runtime on its engines, exact."""
    return Contender(OWN, lanes, HeddleServer())
