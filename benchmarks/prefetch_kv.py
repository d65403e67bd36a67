"""The gain of reading stored chunk KV from disk while the search that finds it still runs.

The same questions with the pass `prefetch_kv` and with it left out, on the same lanes: Heddle's
runtime, its vector engine over the heavy index of `heddle bench workflows`, and the reader. A
oneshot of six passages answers; its search scans as many lists as take about `search_s`. Prompts
take chunk KV by FusionRAG at 15 %. Every question is asked once before, so that the KV of all its
passages lies on disk; host memory holds that of a few prompts. One question follows the other;
blocks run in turns (on off, off on), and are compared in pairs.

Before each question the pages of all KV files are dropped (`posix_fadvise`, DONTNEED), so that
reads go to the disk, or to what lies behind a virtual one. `disk` is what reads are held to
[MB/s]: None = as fast as the disk is, measured before (`disk_mb_per_s`: files read whole, one by
one). The others are no disks of this machine: they say from which speed on the pass would pay.

x_* are the latencies without the pass over those with it, above 1 = it pays: `x_p50` of the answer
with the lower bound of a paired bootstrap, `x_first_token` of the first token, on the disk as it
is; with the declared speed behind their names, on the others. `loads_used` and `loads_wasted` are
the chunks that were read ahead, by whether their prompt used them. `tokens_equal` is the share of
the answers that are the same with the pass and without it. It can be below 1: a prompt that reads
from a slow disk computes some chunks anew, by the clock, and FusionRAG is approximate.
"""

import asyncio
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.coscheduling.asks import Ask
from benchmarks.coscheduling.contenders import FUSIONRAG, HeddleDriver, HeddleServer
from benchmarks.coscheduling.generations import Generations
from benchmarks.coscheduling.heavy_index import heavy_index, lists_of
from benchmarks.coscheduling.lane_set import LaneSet, lane_set
from benchmarks.coscheduling.ratios import median, ratio
from benchmarks.coscheduling.search_calls import SearchCalls
from benchmarks.coscheduling.stolen import Stolen
from benchmarks.support.data import rows
from benchmarks.support.page_cache import drop_page_cache
from benchmarks.support.wiki_index import WikiIndex, wiki_index
from heddle.app.priming.chunk_kv_disk import bytes_held, chunk_kv_directory
from heddle.core.cache import cache_directory
from heddle.core.primitives import PrimitiveKind
from heddle.runtime.events import Answer, RequestEvent, TokenDelta
from heddle.workflow.model_prompts import with_model_prompts
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.presets import oneshot
from heddle.workflow.workflow import Workflow

TOPK: Final = 6
REUSE: Final = replace(FUSIONRAG, always=True)  # without a prediction: loads are measured
PASS: Final = "prefetch_kv"
TENANT: Final = "one"  # raw KV is a tenant's own
ON: Final = "with it"
OFF: Final = "without it"
MEMORY_BYTES: Final = 32 << 20
DISK_BYTES: Final = 8 << 30
MB: Final = 1e6
TRIED: Final = 3  # questions that all lists are scanned for
WRITTEN_S: Final = 1.0
Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured; `vectors` of the heavy index, `disks` [MB/s].

    A block has `asks` questions. Both contenders warm up with one block, twice: together at least
    16 searches, before which nothing is known of how likely hits are to stay.
    """

    vectors: int
    search_s: float
    blocks: int
    asks: int
    disks: tuple[float | None, ...]


FULL: Final = Size(4_000_000, 0.15, 4, 8, (None, 200.0, 50.0))
QUICK: Final = Size(40_000, 0.05, 1, 9, (None, 50.0))


@dataclass(frozen=True, slots=True)
class Block:
    """One contender's block.

    Its latencies and first tokens [s]; how often reads were asked for, and the chunks read so; the
    tokens of chunks that prompts waited for, how long they did [s], and how often one computed
    some of its stored chunks instead; the share of time that was stolen.
    """

    disk: float | None
    contender: str
    number: int
    latencies_s: tuple[float, ...]
    first_tokens_s: tuple[float, ...]
    prefetches: int
    loads_used: int
    loads_wasted: int
    tokens_from_disk: int
    loading_s: float
    fallbacks: int
    stolen: float
    texts: Texts


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure the disk as it is, and slower ones."""
    size = QUICK if quick else FULL
    wiki = wiki_index(quick)
    heavy = heavy_index(wiki, size.vectors, seed)
    with _copied(wiki) as corpus:
        bench = Bench(corpus, heavy, size, _questions(wiki, size, seed))
        blocks = [block for disk in size.disks for block in asyncio.run(bench.measured(disk))]
        return {
            "settings": {**asdict(size), **bench.found, "memory_bytes": MEMORY_BYTES},
            "rows": [asdict(replace(block, texts=())) for block in blocks],
            "headline": headline_of(blocks, size, seed),
        }


def prepare(quick: bool, seed: int) -> None:
    """Make the indexes, so that a run only measures."""
    heavy_index(wiki_index(quick), (QUICK if quick else FULL).vectors, seed)


class Bench:
    """A corpus whose passages' KV lies on disk, and what is asked about it.

    Mutates: `found` takes in what is found out about the store and the machine.
    """

    def __init__(
        self, corpus: Path, heavy: Path, size: Size, questions: Sequence[Sequence[Ask]]
    ) -> None:
        self._corpus, self._heavy, self._size = corpus, heavy, size
        self._blocks = questions
        self._nprobe = 0
        self.found: dict[str, float] = {}

    async def measured(self, disk: float | None) -> list[Block]:
        """Measure both contenders on a disk; the first call fills the store."""
        with self._lanes(disk) as lanes:
            if not self.found:
                await self._fill(lanes)
        with self._lanes(disk) as lanes:  # of a new process, which knows the files only
            servers = {
                ON: HeddleServer(REUSE, speculates=True),
                OFF: HeddleServer(REUSE, speculates=True, disabled=frozenset({PASS})),
            }
            noted = {name: Generations() for name in servers}
            blocks = []
            for name in (ON, OFF, OFF, ON):  # the engines learn how long their steps take
                await self._block(lanes, servers[name], noted[name], disk, name, -1)
            for number in range(self._size.blocks):
                for name in (ON, OFF) if number % 2 == 0 else (OFF, ON):
                    block = await self._block(lanes, servers[name], noted[name], disk, name, number)
                    blocks.append(block)
            return blocks

    @contextmanager
    def _lanes(self, disk: float | None) -> Iterator[LaneSet]:
        with lane_set(
            self._corpus,
            self._heavy,
            SearchCalls.SUBSTAGES,
            None if disk is None else disk * MB,
            dtype="float32",
            optimizations="approx",
            kv_reuse_memory_bytes=MEMORY_BYTES,
            kv_reuse_disk_bytes=DISK_BYTES,
        ) as lanes:
            yield lanes

    async def _fill(self, lanes: LaneSet) -> None:
        """Ask all once; find how many lists take `search_s`, and how fast the disk reads.

        The lists come first: a search of other lists finds other passages.
        """
        server = HeddleServer(REUSE, speculates=True, disabled=frozenset({PASS}))
        driver = server(lanes, TENANT, Generations())
        self._nprobe = nlist = lists_of(self._size.vectors)
        tried = [await self._asked(driver, lanes, ask) for ask in self._blocks[0][:TRIED]]
        whole_s = min(_search_s(one.answer) for one in tried)
        self._nprobe = min(nlist, max(1, round(nlist * self._size.search_s / whole_s)))
        asked = [await self._asked(driver, lanes, ask) for b in self._blocks for ask in b]
        await driver.end()
        folder = chunk_kv_directory(self._corpus)
        await _written(folder)
        self.found = {
            "nprobe": self._nprobe,
            "search_s": statistics.median(_search_s(one.answer) for one in asked),
            "prompt_tokens": statistics.median(one.answer.receipt.prompt_tokens for one in asked),
            "chunks_stored": len(self._files()),
            "bytes_stored": bytes_held(folder),
            "disk_mb_per_s": self._disk_mb_per_s(),
        }
        print("  ".join(f"{name} {value:.4g}" for name, value in self.found.items()), flush=True)

    def _disk_mb_per_s(self) -> float:
        """Return how fast the KV files are read whole, one after the other, with no page cached."""
        files = self._files()
        drop_page_cache(files)
        started_s = time.perf_counter()
        nbytes = sum(len(path.read_bytes()) for path in files)
        return nbytes / MB / (time.perf_counter() - started_s)

    async def _block(
        self,
        lanes: LaneSet,
        server: HeddleServer,
        noted: Generations,
        disk: float | None,
        name: str,
        number: int,
    ) -> Block:
        driver = server(lanes, TENANT, noted)
        with Stolen() as stolen:
            took = [await self._asked(driver, lanes, ask) for ask in self._blocks[number]]
        await driver.end()
        receipts = [one.answer.receipt for one in took]
        block = Block(
            disk,
            name,
            number,
            tuple(one.seconds for one in took),
            tuple(one.first_token_s for one in took),
            sum(receipt.kv_prefetches for receipt in receipts),
            sum(receipt.kv_loads_used for receipt in receipts),
            sum(receipt.kv_loads_wasted for receipt in receipts),
            sum(fused.tokens_from_disk for receipt in receipts for fused in receipt.kv_reuse),
            sum(fused.loading_s for receipt in receipts for fused in receipt.kv_reuse),
            sum(len(receipt.degradations) for receipt in receipts),
            stolen.share,
            tuple(one.answer.text for one in took),
        )
        print(
            f"{_disk_name(disk):<8} {name:<11} block {number}: p50 {median(block.latencies_s):.3f} "
            f"s, first token {median(block.first_tokens_s):.3f} s, {block.prefetches} prefetches, "
            f"{block.loads_used} loads used, {block.loads_wasted} wasted, "
            f"loading {block.loading_s:.3f} s, stolen {block.stolen:.1%}",
            flush=True,
        )
        return block

    async def _asked(self, driver: HeddleDriver, lanes: LaneSet, ask: Ask) -> "_Took":
        """Ask one question, with no page of a KV file cached."""
        drop_page_cache(self._files())
        loop = asyncio.get_running_loop()
        first_s: list[float] = []

        def hear(event: RequestEvent) -> None:
            if isinstance(event, TokenDelta) and not first_s:
                first_s.append(loop.time())

        started_s = loop.time()
        answer = await driver.ask(ask, self._workflow(lanes), hear)
        ended_s = loop.time()
        return _Took(answer, ended_s - started_s, (first_s or [ended_s])[0] - started_s)

    def _workflow(self, lanes: LaneSet) -> Workflow:
        workflow = with_model_prompts(oneshot(TOPK).compile(), lanes.prompts)
        nodes = {
            name: replace(node, nprobe=self._nprobe) if isinstance(node, RetrievalNode) else node
            for name, node in workflow.nodes.items()
        }
        return replace(workflow, nodes=nodes)

    def _files(self) -> list[Path]:
        return sorted(chunk_kv_directory(self._corpus).rglob("*.safetensors"))


class _Took(NamedTuple):
    """An answer, and how long it and its first token took [s]."""

    answer: Answer
    seconds: float
    first_token_s: float


def _search_s(answer: Answer) -> float:
    (search,) = (s for s in answer.receipt.spans if s.kind is PrimitiveKind.SEARCHING)
    return search.done_s - search.sent_s


async def _written(folder: Path) -> None:
    """Wait until no file has come for a second: a store writes behind its answers."""
    before = -1
    while (now := bytes_held(folder)) != before:
        before = now
        await asyncio.sleep(WRITTEN_S)


@contextmanager
def _copied(wiki: WikiIndex) -> Iterator[Path]:
    """Give a copy of the corpus, on the disk of the cache; its KV ends with it."""
    with tempfile.TemporaryDirectory(dir=cache_directory("bench")) as folder:
        copy = Path(folder) / "corpus"
        shutil.copytree(wiki.directory, copy)
        yield copy


def _questions(wiki: WikiIndex, size: Size, seed: int) -> list[list[Ask]]:
    """Return the blocks, and behind them one that only warms up."""
    every = [row["question"] for name in (wiki.single, wiki.multihop) for row in rows(name)]
    drawn = random.Random(seed).sample(every, (size.blocks + 1) * size.asks)
    asks = [Ask("oneshot", question, None, 0.0) for question in drawn]
    return [asks[first : first + size.asks] for first in range(0, len(asks), size.asks)]


def headline_of(blocks: Sequence[Block], size: Size, seed: int) -> dict[str, float]:
    """Return the figures of each disk of a size."""
    found: dict[str, float] = {}
    for disk in size.disks:
        on, off = (
            [block for block in blocks if (block.disk, block.contender) == (disk, name)]
            for name in (ON, OFF)
        )
        end = "" if disk is None else f"_{disk:g}_mb_s"
        p50 = ratio([b.latencies_s for b in on], [b.latencies_s for b in off], median, seed)
        firsts = ([b.first_tokens_s for b in on], [b.first_tokens_s for b in off])
        first = ratio(*firsts, median, seed)
        equal = [a == b for pair in _pairs(on, off) for a, b in zip(*pair, strict=True)]
        found |= {
            f"x_p50{end}": p50.value,
            f"x_p50_low95{end}": p50.low95,
            f"x_first_token{end}": first.value,
            f"x_first_token_low95{end}": first.low95,
            f"loads_used{end}": float(sum(block.loads_used for block in on)),
            f"loads_wasted{end}": float(sum(block.loads_wasted for block in on)),
            f"tokens_equal{end}": sum(equal) / len(equal),
        }
    return found


def _pairs(on: Sequence[Block], off: Sequence[Block]) -> Iterator[tuple[Texts, Texts]]:
    other = {block.number: block.texts for block in off}
    return ((block.texts, other[block.number]) for block in on)


def _disk_name(disk: float | None) -> str:
    return "as it is" if disk is None else f"{disk:g} MB/s"
