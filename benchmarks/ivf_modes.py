"""Recall and speed of every search mode on real vectors, beside FAISS, hnswlib and usearch.

Who is compared with whom, over the passages of the wiki index and real questions (MiniLM), k 10:
our engine with the default index (PQ FastScan, refined in float16), with the exact one (Panorama)
and with whole vectors in lists; against FAISS IVFFlat over the same number of lists, FAISS
IndexFlatL2, FAISS HNSW, hnswlib and usearch (M 16 each). All questions are one batch, on one
core, CPU time, the methods in turns, medians. Recall is against a full scan. A method's speed at
recall 0.96 lies between its two neighbouring settings, on a straight line of log(queries/s).
`panorama_x` is the exact mode over FAISS IVFFlat scanning as many lists, all of them;
`panorama_x_gemm` over IndexFlatL2, which makes one matrix product of the whole batch; `shared_x` is
our scan of whole vectors, which all questions share, over FAISS IVFFlat like the first.
Ours goes through the engine with its slots, heaps and hits; what can't be imported is left out.

What a first threshold would save the exact mode, on the chains of `locality`, the second search
after the first: `exact, unseeded` begins without one, as ours does; `exact, seeded` with the
distance of the k-th nearest of the 20 hits of the search before, which is measured in that time;
`exact, best seed` with that of its own k-th hit: none could save more. `seeded_x` and `best_seed_x`
are their speeds over the first's. `seeded_compared` and `best_seed_compared` are the coordinates
that they compare over the first's, by FAISS's own count, which nothing beside them disturbs.
"""

import importlib.util
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.support.data import array_digest, made_from
from benchmarks.support.fixed_source import FixedSource
from benchmarks.support.question_pairs import chains
from benchmarks.support.question_vectors import text_vectors
from benchmarks.support.search_set import QUESTIONS, SearchSet, search_set
from benchmarks.support.wiki_index import wiki_index
from heddle.core.commands import Admit, Steer
from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.early_stop.orders import CACHED_HITS
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex, nlist_for
from heddle.engines.vector.ivf.scanner import IvfScanner
from heddle.engines.vector.ivf.search import IvfSearch
from heddle.engines.vector.ivf.stepping_check import checked_scanner
from heddle.engines.vector.perf_clock import PerfClock

K: Final = 10
TARGET: Final = 0.96
LINKS: Final = 16  # M of every graph
BUILD_BREADTH: Final = 200  # efConstruction of every graph
NPROBES: Final = (2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 192)
BREADTHS: Final = (16, 32, 64, 96, 128, 192, 256, 384)
SLOTS: Final = 256
ROUNDING: Final = 1e-5  # of a squared distance, at most, between two ways to sum it

Vectors = NDArray[np.float32]
Labels = NDArray[np.int64]
Search = Callable[[NDArray[np.float32], int], Labels]
"""Queries [n, d] and a setting -> the ids of the K nearest, [n, K]."""


@dataclass(slots=True)
class Method:
    """One way to search, at several settings. Mutates: the measured times and results."""

    name: str
    search: Search
    settings: tuple[int, ...]
    seconds: dict[int, list[float]] = field(default_factory=dict)
    labels: dict[int, Labels] = field(default_factory=dict)


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run the comparison; returns one row for each method and setting, and the headline."""
    faiss.omp_set_num_threads(1)
    data = search_set(quick)
    methods = [*_ours(data), *_peers(data)]
    repetitions = 2 if quick else 5
    print(
        f"{len(data.vectors)} x {data.vectors.shape[1]} passages, {len(data.queries)} questions, "
        f"k {K}, one core, CPU time, {repetitions} repetitions; FAISS {faiss.__version__}"
    )
    rows = _measured(methods, data, repetitions)
    firsts, seconds = _chained(quick)
    follow_up = SearchSet(data.vectors, seconds)
    begun = list(_begun(follow_up, firsts))
    seeded = _measured(begun, follow_up, repetitions)
    for row, method in zip(seeded, begun, strict=True):
        row["compared"] = _share_compared(method, seconds)
        print(f"{row['method']:<24} compares {row['compared']:.4f} of all coordinates")
    settings = {"k": K, "target": TARGET, "questions": len(data.queries), "quick": quick}
    headline = {**_headline(methods, rows), **_seed_headline(seeded)}
    return {"settings": settings, "rows": [*rows, *seeded], "headline": headline}


def prepare(quick: bool) -> None:
    """Embed the questions and build the peers' graphs, so that a run only measures."""
    for _ in _peers(search_set(quick)):
        pass
    _chained(quick)


def _measured(methods: Sequence[Method], data: SearchSet, repetitions: int) -> list[dict[str, Any]]:
    """Search with every method and setting in turns; return and print a row for each."""
    for _ in range(repetitions):
        for method in methods:
            for setting in method.settings:
                started_s = time.process_time()
                method.labels[setting] = method.search(data.queries, setting)
                taken_s = time.process_time() - started_s
                method.seconds.setdefault(setting, []).append(taken_s)
    rows = list(_rows(methods, data))
    for row in rows:
        print(
            f"{row['method']:<24} {row['setting']:>4}  recall {row['recall']:.4f}  "
            f"{row['qps']:9.0f} queries/s"
        )
    return rows


def _rows(methods: Iterable[Method], data: SearchSet) -> Iterable[dict[str, Any]]:
    nearest = data.nearest(K)
    for method in methods:
        for setting in method.settings:
            found = method.labels[setting]
            hits = (found[:, :, None] == nearest[:, None, :]).any(axis=2)
            seconds = statistics.median(method.seconds[setting])
            yield {
                "method": method.name,
                "setting": setting,
                "recall": float(hits.mean()),
                "qps": len(found) / seconds,
                "equal_sets": float(hits.all(axis=1).mean()),
            }


def _headline(methods: list[Method], rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return how many times as fast the default is at the target recall, and the exact mode."""
    at = {method.name: _qps_at(TARGET, _of(rows, method.name)) for method in methods}
    headline = {}
    for name, peer in (
        ("x_ivfflat", "FAISS IVFFlat"),
        ("x_hnswlib", "hnswlib"),
        ("x_faiss_hnsw", "FAISS HNSW"),
        ("x_usearch", "usearch"),
    ):
        ours, theirs = at["heddle default"], at.get(peer)
        if ours and theirs:
            headline[f"{name}_at_096"] = round(ours / theirs, 3)
        else:
            print(f"{name}_at_096: left out, as not both reach recall {TARGET}")
    [exact], [shared] = _of(rows, "heddle exact"), _of(rows, "heddle lists, exact")
    [product], flat = _of(rows, "FAISS Flat"), _of(rows, "FAISS IVFFlat")[-1]
    headline["panorama_x"] = round(exact["qps"] / flat["qps"], 3)
    headline["panorama_x_gemm"] = round(exact["qps"] / product["qps"], 3)
    headline["shared_x"] = round(shared["qps"] / flat["qps"], 3)
    headline["panorama_equal_sets"] = exact["equal_sets"]
    return headline


def _of(rows: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["method"] == method]


def _qps_at(recall: float, rows: list[dict[str, Any]]) -> float | None:
    """Return queries/s at a recall between two settings, or None where none lies on each side."""
    ordered = sorted(rows, key=lambda row: row["recall"])
    for low, high in itertools.pairwise(ordered):
        if low["recall"] <= recall <= high["recall"] and low["recall"] < high["recall"]:
            share = (recall - low["recall"]) / (high["recall"] - low["recall"])
            return math.exp((1 - share) * math.log(low["qps"]) + share * math.log(high["qps"]))
    return None


# Ours -----------------------------------------------------------------------------------------


def _ours(data: SearchSet) -> Iterable[Method]:
    source = FixedSource(data.vectors)
    nlist = nlist_for(len(data.vectors))
    nprobes = tuple(nprobe for nprobe in NPROBES if nprobe <= nlist)
    for name, kind, settings in (
        ("heddle default", IndexKind.PQ, nprobes),
        ("heddle exact", IndexKind.PANORAMA, (nlist,)),
        ("heddle lists, exact", IndexKind.FLAT, (nlist,)),
    ):
        corpus = FollowedIvf(LiveIndex.build(source, kind=kind), source)
        engine = ivf_engine("vector", 0, corpus, PerfClock(), slots=SLOTS)
        engine.apply(Steer(budget_s=math.inf))  # alone on its core, a batch isn't stepped
        yield Method(name, _EngineSearch(engine), settings)


class _EngineSearch:
    """Searches through an engine: one task for each batch, stepped until it is done."""

    def __init__(self, engine: SearchEngine[IvfSearch]) -> None:
        self._engine = engine
        self._tasks = 0

    def __call__(self, queries: NDArray[np.float32], setting: int) -> Labels:
        self._tasks += 1
        payload = SearchPayload(queries, K, setting)
        identity = Identity(self._tasks, "search")
        task = Task(self._tasks, PrimitiveKind.SEARCHING, identity, payload)
        self._engine.apply(Admit(task, 0))
        while self._engine.has_work:
            for event in self._engine.step(0.0, math.inf).events:
                assert isinstance(event, Done), event
                assert isinstance(event.result, Hits), event
                return event.result.labels
        raise AssertionError("the search ended without a result")


# A first threshold ----------------------------------------------------------------------------


def _chained(quick: bool) -> tuple[Vectors, Vectors]:
    """Return the first and the second questions of chains, [n, d] each."""
    pairs = itertools.islice(chains(wiki_index(quick).multihop), QUESTIONS)
    vectors = text_vectors([text for pair in pairs for text in pair])
    return np.ascontiguousarray(vectors[0::2]), np.ascontiguousarray(vectors[1::2])


def _begun(data: SearchSet, before: Vectors) -> Iterable[Method]:
    """Yield the exact mode with each first threshold; `before` are the searches before, [q, d]."""
    source = FixedSource(data.vectors)
    scanner = checked_scanner(LiveIndex.build(source, kind=IndexKind.PANORAMA))
    nlist = len(scanner.list_sizes)
    cached = scanner.search_at_once(before, CACHED_HITS, nlist)[1] - 1
    final = scanner.search_at_once(data.queries, K, nlist)[0][:, -1]

    def kth_cached(queries: Vectors) -> Vectors:
        away = data.vectors[cached] - queries[:, None]
        far: Vectors = np.partition(np.einsum("qhd,qhd->qh", away, away), K - 1, axis=1)
        return far[:, K - 1]

    for name, threshold in (
        ("exact, unseeded", lambda queries: np.full(len(queries), np.inf, np.float32)),
        ("exact, seeded", kth_cached),
        ("exact, best seed", lambda queries: final),
    ):
        yield Method(name, _SeededSearch(scanner, threshold), (nlist,))


class _SeededSearch:
    """Searches that pass over whatever is farther than a threshold from the start.

    A scan takes what is nearer than the farthest hit so far, so hits that aren't there yet, as far
    away as the threshold and its rounding, are all replaced.
    """

    def __init__(self, scanner: IvfScanner, threshold: Callable[[Vectors], Vectors]) -> None:
        self._scanner, self._threshold = scanner, threshold

    def __call__(self, queries: Vectors, setting: int) -> Labels:
        prepared = self._scanner.prepared(queries)
        lists = self._scanner.coarse(prepared, setting)
        bounds = self._threshold(queries) * np.float32(1 + ROUNDING) + np.float32(ROUNDING)
        distances = np.repeat(bounds[:, None], K, axis=1)
        labels = np.full(distances.shape, -1, np.int64)
        self._scanner.scan(prepared, lists, distances, labels)
        return self._scanner.hits(prepared, distances, labels, K)[1]


def _share_compared(method: Method, queries: Vectors) -> float:
    """Return the share of all coordinates that a search compares before vectors are out."""
    counts = faiss.cvar.indexPanorama_stats
    counts.reset()
    method.search(queries, method.settings[-1])
    return float(counts.total_dims_scanned / counts.total_dims)


def _seed_headline(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    unseeded, seeded, best = rows
    return {
        "seeded_x": round(seeded["qps"] / unseeded["qps"], 3),
        "best_seed_x": round(best["qps"] / unseeded["qps"], 3),
        "seeded_compared": round(seeded["compared"] / unseeded["compared"], 4),
        "best_seed_compared": round(best["compared"] / unseeded["compared"], 4),
    }


# Peers ----------------------------------------------------------------------------------------


def _peers(data: SearchSet) -> Iterable[Method]:
    """Yield the peers that are installed, built or read from the cache; ids are 1 to n."""
    vectors = data.vectors
    nlist = nlist_for(len(vectors))
    yield Method("FAISS Flat", _faiss_flat(vectors), (0,))
    nprobes = tuple(nprobe for nprobe in NPROBES if nprobe < nlist)
    yield Method("FAISS IVFFlat", _faiss_ivf(vectors, nlist), (*nprobes, nlist))
    folder = made_from(
        "graphs", {"vectors": array_digest(vectors), "M": LINKS, "breadth": BUILD_BREADTH}
    )
    yield Method("FAISS HNSW", _faiss_hnsw(vectors, folder / "faiss.hnsw"), BREADTHS)
    for name, make in (("hnswlib", _hnswlib), ("usearch", _usearch)):
        if importlib.util.find_spec(name) is None:
            print(f"{name}: left out, as it isn't installed (pip install {name})")
        else:
            yield Method(name, make(vectors, folder / name), BREADTHS)


def _faiss_flat(vectors: NDArray[np.float32]) -> Search:
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(vectors)
    return lambda queries, setting: index.search(queries, K)[1] + 1


def _faiss_ivf(vectors: NDArray[np.float32], nlist: int) -> Search:
    dims = vectors.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dims), dims, nlist)
    index.cp.min_points_per_centroid = 1
    index.train(vectors)
    index.add(vectors)

    def search(queries: NDArray[np.float32], setting: int) -> Labels:
        index.nprobe = setting
        return index.search(queries, K)[1] + 1

    return search


def _faiss_hnsw(vectors: NDArray[np.float32], path: Path) -> Search:
    if not path.exists():
        built = faiss.IndexHNSWFlat(vectors.shape[1], LINKS)
        built.hnsw.efConstruction = BUILD_BREADTH
        built.add(vectors)
        faiss.write_index(built, str(path.with_suffix(".part")))
        path.with_suffix(".part").replace(path)
    index = faiss.read_index(str(path))

    def search(queries: NDArray[np.float32], setting: int) -> Labels:
        index.hnsw.efSearch = setting
        return index.search(queries, K)[1] + 1

    return search


def _hnswlib(vectors: NDArray[np.float32], path: Path) -> Search:
    import hnswlib

    index = hnswlib.Index("l2", vectors.shape[1])
    if path.exists():
        index.load_index(str(path), max_elements=len(vectors))
    else:
        index.init_index(len(vectors), M=LINKS, ef_construction=BUILD_BREADTH, random_seed=1)
        index.add_items(vectors, np.arange(1, len(vectors) + 1), num_threads=1)
        index.save_index(str(path.with_suffix(".part")))
        path.with_suffix(".part").replace(path)

    def search(queries: NDArray[np.float32], setting: int) -> Labels:
        index.set_ef(setting)
        return index.knn_query(queries, K, num_threads=1)[0].astype(np.int64)

    return search


def _usearch(vectors: NDArray[np.float32], path: Path) -> Search:
    from usearch.index import Index

    index = Index(
        ndim=vectors.shape[1],
        metric="l2sq",
        dtype="f32",
        connectivity=LINKS,
        expansion_add=BUILD_BREADTH,
    )
    if path.exists():
        index.load(str(path))
    else:
        index.add(np.arange(1, len(vectors) + 1), vectors, threads=1)
        index.save(str(path.with_suffix(".part")))
        path.with_suffix(".part").replace(path)

    def search(queries: NDArray[np.float32], setting: int) -> Labels:
        index.expansion_search = setting
        return index.search(queries, K, threads=1).keys.astype(np.int64)

    return search
