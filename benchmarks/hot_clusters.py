"""Hot clusters: how many scans they serve by what they hold, and what that gains.

Hit rate: questions over the passages of the wiki index (real MiniLM vectors, default index), 8 in
flight, sub-stages of 8 lists each, swaps on (every 50 sub-stages, quick: 5); of all lists that were
asked for, those that lay on the device, from the first question on. Beside it: what the best choice
in hindsight would have held that never changes, and the paper's figure (HedraRAG §3.3: the top 20 %
of clusters take 69 % of the scans). Three streams: single questions and multi-hop
questions as their files have them, and the requests of a real RAG service (RAGPulse), whose
contents, which the trace only numbers, are played by one passage each, drawn at random: real
popularity, foreign text.

Speed without a GPU: the host's memory plays the device. It is forced on, left to the engine's own
judgement, and off; CPU time.

With `--device cuda`: synthetic vectors that all lie on the GPU, beside a full scan by torch
(product and top-k); the share of memory bandwidth is over what a large copy on the same GPU gets.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.support.data import rows as data_rows
from benchmarks.support.device_scan import copy_bandwidth, full_scan, gpu_named, median_s, wait
from benchmarks.support.fixed_source import FixedSource
from benchmarks.support.question_vectors import question_vectors
from benchmarks.support.search_set import SearchSet, search_set
from benchmarks.support.wiki_index import wiki_index
from heddle.core.errors import InternalError
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.hot.block_tier import BlockTier
from heddle.engines.vector.ivf.hot.build import CPU, build_hot_clusters
from heddle.engines.vector.ivf.hot.hot_clusters import HotClusters, HotCounts
from heddle.engines.vector.ivf.hot.residency import BLOCK_ROWS
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.stepping_check import checked_scanner
from heddle.engines.vector.perf_clock import PerfClock
from heddle.engines.vector.search import SortedHits

K: Final = 10
IN_FLIGHT, LISTS_PER_STEP = 8, 8
SWAP_EVERY, SWAP_EVERY_QUICK = 50, 5
SHARES: Final = (0.05, 0.1, 0.2, 0.4)
NPROBES: Final = (16, 96)
HEADLINE_SHARE, HEADLINE_NPROBE = 0.2, 96
PAPER_AT_20: Final = 0.69
GPU_SETS: Final = ((1_000_000, 384), (10_000_000, 96))
GPU_BATCHES: Final = (1, 16, 64)
GPU_BLOCKS_PER_QUERY: Final = 768  # as many vectors as 96 of 2,000 lists of 500 have

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Queries in the order in which they come, [q, d]."""

    name: str
    queries: Vectors


def run(quick: bool, seed: int, device: str = "cpu") -> dict[str, object]:
    """Run either part; returns one row for each measurement, and the headline."""
    if device == "cpu":
        return _on_real_queries(quick, seed)
    return _on_gpu(gpu_named(device), quick, seed)


def _on_real_queries(quick: bool, seed: int) -> dict[str, object]:
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    data = search_set(quick)
    default = Searched(data.vectors, IndexKind.PQ)
    print(
        f"{len(data.vectors)} x {data.vectors.shape[1]} passages in "
        f"{len(default.scanner.list_sizes)} lists, default index"
    )
    swap_every = SWAP_EVERY_QUICK if quick else SWAP_EVERY
    rows: list[dict[str, Any]] = []
    for stream in _streams(quick, data.vectors, seed):
        for nprobe in NPROBES:
            rows += _hit_rates(default, stream, nprobe, swap_every)
    for kind in (IndexKind.PQ, IndexKind.FLAT):
        repetitions = 3 if quick else 9
        rows += _host_speeds(Searched(data.vectors, kind), data, repetitions, swap_every)
    headline = {"paper_at_20": PAPER_AT_20}
    for row in rows:
        is_shown = row.get("share"), row.get("nprobe")
        if row["part"] == "hit rate" and is_shown == (HEADLINE_SHARE, HEADLINE_NPROBE):
            suffix = "" if row["stream"] == "questions" else f"_{row['stream']}"
            headline[f"hit_rate_20{suffix}"] = row["hit_rate"]
            headline[f"in_hindsight_20{suffix}"] = row["in_hindsight"]
        elif row["part"] == "speed" and row["use"] != "off":
            headline[f"x_{row['index']}_{row['use']}"] = row["x_off"]
    settings = {
        "k": K,
        "in_flight": IN_FLIGHT,
        "lists_per_step": LISTS_PER_STEP,
        "swap_every": swap_every,
    }
    return {"settings": settings, "rows": rows, "headline": headline}


# Real queries ---------------------------------------------------------------------------------


class Searched:
    """An index of passages, searched in sub-stages with or without hot clusters."""

    def __init__(self, vectors: Vectors, kind: IndexKind) -> None:
        source = FixedSource(vectors)
        self.live = LiveIndex.build(source, kind=kind)
        self.scanner = checked_scanner(self.live)

    def hot(self, share: float, swap_every: int, *, is_always_used: bool = False) -> HotClusters:
        """Return hot clusters that hold nothing yet, on the host."""
        return build_hot_clusters(
            self.live.ivf,
            share,
            CPU,
            PerfClock(),
            swap_every=swap_every,
            is_always_used=is_always_used,
        )

    def search(self, queries: Vectors, nprobe: int, hot: HotClusters | None) -> SortedHits:
        """Search for a batch in sub-stages; return its hits."""
        scanner = self.scanner
        queries = scanner.prepared(queries)
        lists = scanner.coarse(queries, nprobe)
        distances = np.full((len(queries), scanner.heap_size(K)), np.inf, np.float32)
        labels = np.full(distances.shape, -1, np.int64)
        for first in range(0, nprobe, LISTS_PER_STEP):
            step = queries, lists[:, first : first + LISTS_PER_STEP], distances, labels
            if hot is None:
                scanner.scan(*step)
            else:
                hot.scan(*step, scanner.scan)
        return scanner.hits(queries, distances, labels, K)


def _streams(quick: bool, vectors: Vectors, seed: int) -> Iterator[Stream]:
    index = wiki_index(quick)
    count = 200 if quick else 2000
    yield Stream("questions", question_vectors(index.single, count))
    yield Stream("multihop", question_vectors(index.multihop, count))
    yield Stream("ragpulse", vectors[_ragpulse_passages(count, len(vectors), seed)])


def _ragpulse_passages(count: int, passages: int, seed: int) -> NDArray[np.int64]:
    """Return which passage each of the trace's requests is about, [count]."""
    contents = [row["passages"][0][0] for row in data_rows("trace_ragpulse") if row["passages"]]
    places = np.unique(contents[:count], return_inverse=True)[1]
    drawn = np.random.default_rng(seed).permutation(passages)
    return drawn[places % passages]


def _batches(queries: Vectors) -> Iterator[Vectors]:
    for first in range(0, len(queries), IN_FLIGHT):
        yield queries[first : first + IN_FLIGHT]


def _hit_rates(
    searched: Searched, stream: Stream, nprobe: int, swap_every: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for each share that the device holds."""
    scanner = searched.scanner
    nprobe = min(nprobe, len(scanner.list_sizes))
    lists = scanner.coarse(scanner.prepared(stream.queries), nprobe)
    accesses = np.bincount(lists.ravel(), minlength=len(scanner.list_sizes))
    for share in SHARES:
        hot = searched.hot(share, swap_every)
        for batch in _batches(stream.queries):
            searched.search(batch, nprobe, hot)
        row = {
            "part": "hit rate",
            "stream": stream.name,
            "queries": len(stream.queries),
            "nprobe": nprobe,
            "share": share,
            "hit_rate": _hit_rate(hot.counts),
            "in_hindsight": _in_hindsight(accesses, scanner.list_sizes, share),
        }
        print(
            f"{stream.name:<10} {len(stream.queries):>5} queries, nprobe {nprobe:>3}, "
            f"{share:4.0%} of the vectors: {row['hit_rate']:.3f} of the lists there "
            f"(fixed, in hindsight: {row['in_hindsight']:.3f})"
        )
        yield row


def _hit_rate(counts: HotCounts) -> float:
    return counts.ready / counts.probed


def _in_hindsight(accesses: NDArray[np.int64], sizes: NDArray[np.int64], share: float) -> float:
    """Return the share of accesses to the most accessed lists that fit into the same memory."""
    blocks = -(-sizes // BLOCK_ROWS)
    order = np.argsort(-accesses, kind="stable")
    fits = np.cumsum(blocks[order]) <= round(share * int(blocks.sum()))
    return float(accesses[order[fits]].sum() / accesses.sum())


def _host_speeds(
    searched: Searched, data: SearchSet, repetitions: int, swap_every: int
) -> Iterator[dict[str, Any]]:
    """Yield CPU time with the device forced, as the engine would, and off."""
    kind = searched.live.kind
    nprobe = searched.scanner.nprobe_default
    warm = data.queries[-min(len(data.queries), 256) :]
    uses: dict[str, HotClusters | None] = {
        "off": None,
        "auto": searched.hot(HEADLINE_SHARE, swap_every),
        "forced": searched.hot(HEADLINE_SHARE, swap_every, is_always_used=True),
    }
    for hot in uses.values():
        for batch in _batches(warm):
            searched.search(batch, nprobe, hot)
    seconds: dict[str, list[float]] = {use: [] for use in uses}
    hits: dict[str, NDArray[np.int64]] = {}
    queries = data.queries[: 4 * IN_FLIGHT]
    for _ in range(repetitions):
        for use, hot in uses.items():
            started_s = time.process_time()
            found = [searched.search(batch, nprobe, hot)[1] for batch in _batches(queries)]
            hits[use] = np.concatenate(found)
            seconds[use].append(time.process_time() - started_s)
    for use in uses:
        taken_s = statistics.median(seconds[use])
        equal = float((hits[use] == hits["off"]).mean())
        x_off = statistics.median(seconds["off"]) / taken_s
        print(
            f"{kind.value}: {use:<6} {1e3 * taken_s / len(queries):.3f} ms a query, "
            f"{x_off:.3f} x off, {equal:.4f} equal hits"
        )
        yield {
            "part": "speed",
            "index": kind.value,
            "use": use,
            "ms_per_query": 1e3 * taken_s / len(queries),
            "x_off": x_off,
            "equal_hits": equal,
        }


# On a GPU -------------------------------------------------------------------------------------


def _on_gpu(device: torch.device, quick: bool, seed: int) -> dict[str, object]:
    copied = copy_bandwidth(device, 1 << (28 if quick else 31))
    print(f"{torch.cuda.get_device_name(device)}: a large copy moves {copied / 1e9:.0f} GB/s")
    rows: list[dict[str, Any]] = []
    for count, dims in GPU_SETS:
        rows += device_rows(device, count // 20 if quick else count, dims, copied, seed)
    headline = {"copy_gb_per_s": copied / 1e9}
    for row in rows:
        if row["queries"] == GPU_BATCHES[-1]:
            name = f"{row['method']}_{row['vectors']}x{row['dims']}"
            headline[f"qps_{name}"] = row["qps"]
            headline[f"bandwidth_share_{name}"] = row["bandwidth_share"]
    return {"settings": {"k": K, "dtype": "float16"}, "rows": rows, "headline": headline}


def device_rows(
    device: torch.device, count: int, dims: int, bandwidth: float, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the speed of block scans and of a full scan over random vectors, all on the device.

    `bandwidth_share` is what a scan reads of vectors over `bandwidth` [bytes/s] and its time.
    """
    blocks = count // BLOCK_ROWS
    tier = BlockTier(blocks, dims, torch.float16, device)
    plain = _fill(tier, blocks, dims, device, seed)
    norms = plain.float().square().sum(dim=1)
    rng = np.random.default_rng(seed)
    for batch in GPU_BATCHES:
        queries = rng.standard_normal((batch, dims), dtype=np.float32)
        chosen = np.stack(
            [1 + rng.permutation(blocks)[: min(GPU_BLOCKS_PER_QUERY, blocks)] for _ in range(batch)]
        )
        row_bytes = dims * plain.element_size()
        scanned = chosen.size * BLOCK_ROWS * row_bytes
        methods: dict[str, tuple[Callable[[], object], int]] = {
            "hot": (lambda q=queries, b=chosen: tier.scan(q, b, K).wait(), scanned),
            "full": (lambda q=queries: full_scan(plain, norms, q, K), len(plain) * row_bytes),
        }
        for method, (call, read) in methods.items():
            seconds = median_s(device, call)
            row = {
                "part": "device",
                "method": method,
                "vectors": count,
                "dims": dims,
                "queries": batch,
                "vectors_per_query": chosen.shape[1] * BLOCK_ROWS if method == "hot" else count,
                "ms": 1e3 * seconds,
                "qps": batch / seconds,
                "bandwidth_share": read / seconds / bandwidth,
            }
            print(
                f"{method:<5} {count} x {dims}, {batch:>3} queries: {row['ms']:.3f} ms, "
                f"{row['qps']:.0f} queries/s, {row['bandwidth_share']:.2f} of the bandwidth"
            )
            yield row
    _compare(tier, plain.float(), norms, rng)


def _fill(tier: BlockTier, blocks: int, dims: int, device: torch.device, seed: int) -> torch.Tensor:
    """Put random vectors into every block; return the same as one matrix, [n, d]."""
    generator = torch.Generator().manual_seed(seed)
    plain = torch.empty((blocks * BLOCK_ROWS, dims), dtype=torch.float16, device=device)
    first = 0
    while first < blocks:
        stage = tier.free_stage()
        if stage is None:
            continue
        count = min(len(stage.vectors), blocks - first)
        labels = torch.arange(first * BLOCK_ROWS, (first + count) * BLOCK_ROWS)
        stage.vectors.copy_(torch.randn(stage.vectors.shape, generator=generator))
        stage.labels[:count] = labels.view(count, -1)
        plain[labels.to(device)] = stage.vectors[:count].reshape(-1, dims).to(device)
        tier.copy_in(stage, np.arange(first + 1, first + 1 + count))
        first += count
    wait(device)
    return plain


def _compare(
    tier: BlockTier, plain: torch.Tensor, norms: torch.Tensor, rng: np.random.Generator
) -> None:
    """Check that a scan of every block finds what a full scan in float32 does."""
    queries = rng.standard_normal((2, plain.shape[1]), dtype=np.float32)
    everything = np.tile(np.arange(1, len(plain) // BLOCK_ROWS + 1), (2, 1))
    distances, labels = tier.scan(queries, everything, K).wait()
    mine = np.take_along_axis(labels, np.argsort(distances, axis=1), axis=1)
    agreement = float((mine == full_scan(plain, norms, queries, K)[1].numpy()).mean())
    if agreement < 0.99:
        raise InternalError(f"hot clusters and a full scan agree on {agreement:.2f} of the hits")
