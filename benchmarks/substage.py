"""Search latency under Poisson arrivals: sub-stages against whole batched searches.

Who is compared with whom (HedraRAG fig. 18), over the same IVFFlat index, arrivals and thread:
A: our engine, which cuts searches into sub-stages of a time budget and serves the search with
   the fewest clusters left first.
B: whole searches: whenever it is free, FAISS searches all queries that wait in one call for each
   nprobe among them, without lingering for more.
Each query asks for 64 to 512 clusters, drawn evenly. Both run on a clock that advances by the CPU
time of each of their steps, so other work on the machine doesn't queue anybody. Loads are shares
of the capacity of B: how fast it serves when all queries are there at once. Latencies are from
arrival to result; a headline ratio is the worst of all loads, `capacity_ratio` A over B when all
queries are there at once. `identical`: every distance and id of A equals B's, bit for bit.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.ivf_step import NoSource, Settings, prepared_index
from heddle.core.commands import Admit
from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.engine import VectorEngine
from heddle.engines.vector.live_index import LiveIndex
from heddle.engines.vector.perf_clock import PerfClock
from heddle.engines.vector.worker import FaissWorker, one_shot

K: Final = 10
LOADS: Final = (0.6, 0.75, 0.9)
NPROBES: Final = (64, 128, 256, 512)
FULL: Final = Settings(count=1_000_000, nlist=2048, seed=0, batch=400)

Found = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Distances and labels of one query, [K] each."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One query: when it comes [s], its vector [1, d] and how many clusters it scans."""

    arrives_s: float
    vector: NDArray[np.float32]
    nprobe: int


class Searcher(Protocol):
    """One of the two ways to serve. `step` does some work and returns what it has finished."""

    @property
    def has_work(self) -> bool:
        """Whether a query waits or is under way."""
        ...

    def admit(self, number: int, query: Query) -> None:
        """Take a query in."""
        ...

    def step(self) -> Mapping[int, Found]:
        """Work, and return the results of the queries that ended, by number."""
        ...


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run the comparison; returns a row for each load and repetition, and the headline."""
    shape = replace(FULL, seed=seed)
    if quick:
        shape = replace(shape, count=40_000, nlist=512, batch=96)
    repetitions = 1 if quick else 3
    faiss.omp_set_num_threads(1)
    index, vectors = prepared_index(shape)
    make: dict[str, Callable[[], Searcher]] = {
        "sub-stages": lambda: SubStages(index, len(vectors)),
        "whole": lambda: Whole(index),
    }
    print(
        f"{shape.count} x {shape.dims}, nlist {shape.nlist}, k {K}, nprobe of {NPROBES}, "
        f"{len(vectors)} queries, 1 thread, CPU time, FAISS {faiss.__version__}"
    )
    rows: list[dict[str, Any]] = []
    for repetition in range(repetitions):
        draws = np.random.default_rng([seed, repetition])
        nprobes = draws.choice(NPROBES, len(vectors)).tolist()
        gaps = draws.exponential(size=len(vectors))
        at_once = _queries(vectors, nprobes, np.zeros(len(vectors)))
        capacity = {name: len(vectors) / serve(start(), at_once)[1] for name, start in make.items()}
        for load in LOADS:
            queries = _queries(vectors, nprobes, np.cumsum(gaps) / (load * capacity["whole"]))
            rows.append(_compare(make, queries, load, capacity))
            print(_line(rows[-1]))
    return {
        "settings": {**asdict(shape), "loads": LOADS, "nprobes": NPROBES},
        "rows": rows,
        "headline": _headline(rows),
    }


def prepare(quick: bool, seed: int) -> None:
    """Build the index, so that a run only measures."""
    if not quick:
        prepared_index(replace(FULL, seed=seed))


def _compare(
    make: Mapping[str, Callable[[], Searcher]],
    queries: Sequence[Query],
    load: float,
    capacity: Mapping[str, float],
) -> dict[str, Any]:
    row: dict[str, Any] = {"load": load, "capacity": dict(capacity)}
    results = {}
    for name, start in make.items():
        results[name], end_s, latencies_s = serve(start(), queries)
        row[name] = {
            "p50_ms": float(np.quantile(latencies_s, 0.5)) * 1e3,
            "p99_ms": float(np.quantile(latencies_s, 0.99)) * 1e3,
            "queries_per_s": len(queries) / end_s,
        }
    ours, theirs = results["sub-stages"], results["whole"]
    row["identical"] = all(
        np.array_equal(mine, other)
        for number in theirs
        for mine, other in zip(ours[number], theirs[number], strict=True)
    )
    return row


def serve(
    searcher: Searcher, queries: Sequence[Query]
) -> tuple[dict[int, Found], float, NDArray[np.float64]]:
    """Serve queries, ordered by arrival, on a clock that work advances by its CPU time.

    Returns: the results by number, when the last one ended [s], and each latency [s].
    """
    found: dict[int, Found] = {}
    latencies_s = np.zeros(len(queries))
    now_s, coming = 0.0, 0
    while coming < len(queries) or searcher.has_work:
        if not searcher.has_work:
            now_s = max(now_s, queries[coming].arrives_s)
        started_s = time.process_time()
        while coming < len(queries) and queries[coming].arrives_s <= now_s:
            searcher.admit(coming, queries[coming])
            coming += 1
        ended = searcher.step()
        now_s += time.process_time() - started_s
        for number in ended:
            latencies_s[number] = now_s - queries[number].arrives_s
        found.update(ended)
    return found, now_s, latencies_s


class SubStages:
    """Our engine with its own time budget."""

    def __init__(self, index: faiss.IndexIVFFlat, slots: int) -> None:
        worker = FaissWorker(LiveIndex(index, 0), NoSource())
        self._engine = VectorEngine("vector", 0, worker, PerfClock(), slots=slots)

    @property
    def has_work(self) -> bool:
        return self._engine.has_work

    def admit(self, number: int, query: Query) -> None:
        payload = SearchPayload(query.vector, K, query.nprobe)
        identity = Identity(number, "search")
        self._engine.apply(Admit(Task(number, PrimitiveKind.SEARCHING, identity, payload), 0))

    def step(self) -> Mapping[int, Found]:
        ended = {}
        for event in self._engine.step(0.0, math.inf).events:
            assert isinstance(event, Done), event
            assert isinstance(event.result, Hits), event
            ended[event.task_id] = (event.result.distances[0], event.result.labels[0])
        return ended


class Whole:
    """FAISS over all that waits, whole searches at once."""

    def __init__(self, index: faiss.IndexIVFFlat) -> None:
        self._index = index
        self._waiting: dict[int, Query] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._waiting)

    def admit(self, number: int, query: Query) -> None:
        self._waiting[number] = query

    def step(self) -> Mapping[int, Found]:
        ended = {}
        for nprobe in sorted({query.nprobe for query in self._waiting.values()}):
            group = [n for n, query in self._waiting.items() if query.nprobe == nprobe]
            vectors = np.concatenate([self._waiting[number].vector for number in group])
            distances, labels = one_shot(self._index, vectors, K, nprobe)
            for row, number in enumerate(group):
                ended[number] = (distances[row], labels[row])
        self._waiting.clear()
        return ended


def _queries(
    vectors: NDArray[np.float32], nprobes: Sequence[int], arrivals_s: NDArray[np.float64]
) -> list[Query]:
    return [
        Query(float(arrives_s), vectors[i : i + 1], nprobes[i])
        for i, arrives_s in enumerate(arrivals_s)
    ]


def _headline(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    def worst(ratio: Callable[[Mapping[str, Any]], float]) -> float:
        by_load = (statistics.median(ratio(r) for r in rows if r["load"] == x) for x in LOADS)
        return round(min(by_load), 3)

    def faster(name: str) -> Callable[[Mapping[str, Any]], float]:
        return lambda row: row["whole"][name] / row["sub-stages"][name]

    return {
        "x_p50": worst(faster("p50_ms")),
        "x_p99": worst(faster("p99_ms")),
        "throughput_ratio": worst(lambda row: 1 / faster("queries_per_s")(row)),
        "capacity_ratio": worst(
            lambda row: row["capacity"]["sub-stages"] / row["capacity"]["whole"]
        ),
        "identical": int(all(row["identical"] for row in rows)),
    }


def _line(row: Mapping[str, Any]) -> str:
    ours, theirs = row["sub-stages"], row["whole"]
    return (
        f"load {row['load']:.2f}: p50 {ours['p50_ms']:7.2f} / {theirs['p50_ms']:7.2f} ms, "
        f"p99 {ours['p99_ms']:7.2f} / {theirs['p99_ms']:7.2f} ms, "
        f"{ours['queries_per_s']:6.1f} / {theirs['queries_per_s']:6.1f} queries/s "
        f"(sub-stages / whole), identical {row['identical']}"
    )
