"""Graph search that steps: beside hnswlib and FAISS HNSW, and beside batches that wait.

Equal recall: questions over the passages of the wiki index (real MiniLM vectors, one core), each
library swept over its own effort, ours through the engine with its tasks and frames; compared at
the least effort that reaches recall@10 of 0.95.

Poisson arrivals at 80 % of what static batches achieve, on virtual clocks that each engine step
moves by the CPU time it took, the policies in turns: continuous (searches join and leave between
steps, least slack first; steps are as long as the runtime's pass asks for), static (all that wait,
at most 32, answered when the last of them is over), one by one. All three are the same engine. One
by one takes less than what arrives, so its queue grows for as long as the run lasts. Uniform:
topM 32. Mixed: 90 % light (topM 24) and 10 % heavy (topM 256).

With `--device cuda`: graphs searched on the GPU in 256 slots, beside a full scan by torch, and
beside cuVS CAGRA where that is installed: the passages, and synthetic sets of 1M x 384 and 10M x 96
(quick: a hundredth). Their graphs are built by the CPU on the first run, which takes long and says
how far it is, and kept.
"""

import math
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import faiss
import hnswlib
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.support.data import made_from
from benchmarks.support.device_scan import gpu_named
from benchmarks.support.gpu_graph import gpu_rows, nearest_on, synthetic
from benchmarks.support.question_vectors import question_vectors
from benchmarks.support.wiki_index import WikiIndex, wiki_index
from heddle.core.commands import Admit, Steer
from heddle.core.errors import InternalError
from heddle.core.frames import Done, Load
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.core.tasks import Identity, Task
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.graph.gpu.search import extend_by_kernel
from heddle.engines.vector.graph.graph_file import open_graph, write_graph
from heddle.engines.vector.graph.graph_header import MAGIC
from heddle.engines.vector.graph.graph_index import GraphIndex, build_graph
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.search import GraphSearch
from heddle.engines.vector.graph.worker import NumbaWorker
from heddle.passes.cycle_view import CycleView, EngineView, SetBudget
from heddle.passes.split_substages import SplitSubstages
from heddle.runtime.lane import smoothed_s

K: Final = 10
M, EF_CONSTRUCTION = 16, 200  # of hnswlib and FAISS HNSW: 32 edges a node, as ours
EFFORTS: Final = (16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384)
RECALL: Final = 0.95
TURN_S: Final = 0.02  # about a batch
STATIC_BATCH: Final = 32
WHOLE_S: Final = 10.0  # a step budget that no batch reaches
LIGHT, HEAVY, HEAVY_SHARE = 24, 256, 0.1
UNIFORM: Final = 32
LOAD: Final = 0.8
CAPACITY_TURNS: Final = 3
SLOTS: Final = 64
GPU_SETS: Final = ((1_000_000, 384), (10_000_000, 96))
GPU_QUERIES: Final = 1000
TOLD_FROM: Final = 500_000  # vectors, from which a build prints its progress


Run = Generator[float, None, list[float]]
"""A policy at work: after each step the time [s], at last when each search ended [s]."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured."""

    questions: int
    repetitions: int
    streams: int
    arrivals: int
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSet:
    """What is searched on a GPU: a graph, queries [q, d], and their nearest rows [q, K]."""

    name: str
    graph: GraphIndex
    queries: NDArray[np.float32]
    truth: NDArray[np.int64]


class CpuClock:
    """This process's CPU time: what else runs on the machine doesn't count."""

    def now_s(self) -> float:
        """Return the CPU time [s]."""
        return time.process_time()


@dataclass(frozen=True, slots=True)
class Arrival:
    """One search of a Poisson stream."""

    at_s: float
    query: int
    topm: int


def run(quick: bool, seed: int, device: str = "cpu") -> dict[str, object]:
    """Run both parts; returns settings, one row for each measurement, and the headline."""
    if device != "cpu":
        return _on_gpu(gpu_named(device), quick, seed)
    settings = Settings(100, 1, 1, 200, seed) if quick else Settings(1000, 3, 7, 3000, seed)
    faiss.omp_set_num_threads(1)
    index = wiki_index(quick)
    vectors = passage_vectors(index)
    queries = question_vectors(index.single, settings.questions)
    truth = faiss.knn(queries, vectors, K)[1]
    print(f"{len(vectors)} passages, {len(queries)} questions, k {K}, one core, CPU time")
    graph = graph_over(vectors)
    rows = list(_equal_recall(settings, graph, vectors, queries, truth))
    ours, hnsw, theirs = (_cheapest(rows, name) for name in ("heddle", "hnswlib", "faiss"))
    poisson = _poisson(settings, graph, queries)
    mixed = poisson["mixed"]
    headline = {
        "x_qps_hnswlib": ours["qps"] / hnsw["qps"],
        "x_qps_faiss_hnsw": ours["qps"] / theirs["qps"],
        "recall": ours["recall"],
        "qps": ours["qps"],
        "x_light_p95_static": mixed["continuous"]["x_light_p95_static"],
        "light_p95_ms": mixed["continuous"]["light_p95_ms"],
        "heavy_p95_ms": mixed["continuous"]["heavy_p95_ms"],
        "heavy_p95_static_ms": mixed["static"]["heavy_p95_ms"],
        "capacity_ratio": min(
            part["continuous"]["capacity_qps"] / part["one by one"]["capacity_qps"]
            for part in poisson.values()
        ),
        "search_kib": NumbaWorker(LiveGraph(graph), 1).bytes_per_search / 1024,
    }
    rows += [
        {"workload": load, "policy": policy, **found}
        for load, part in poisson.items()
        for policy, found in part.items()
    ]
    return {"settings": asdict(settings), "rows": rows, "headline": headline}


def _on_gpu(device: torch.device, quick: bool, seed: int) -> dict[str, Any]:
    """Search graphs on a GPU, many slots at once, beside a full scan and cuVS CAGRA."""
    print(torch.cuda.get_device_name(device))
    found: list[dict[str, Any]] = []
    for data in _gpu_sets(device, quick, seed):
        print(f"{data.name}: {data.graph.count} x {data.graph.dims}")
        for row in gpu_rows(device, data.graph, data.queries, data.truth, extend_by_kernel):
            found.append({"set": data.name, **row})
            print(", ".join(f"{name} {value}" for name, value in found[-1].items()))
    headline = {
        f"{key}_{_short(row)}": row[key]
        for row in found
        for key in ("qps", "recall", "bandwidth_share")
        if key in row
    }
    return {"settings": {"k": K, "questions": GPU_QUERIES}, "rows": found, "headline": headline}


def _short(row: dict[str, Any]) -> str:
    words = [row["set"], row["method"].replace(" ", "_")]
    words += [f"{name[0]}{row[name]}" for name in ("topm", "parents") if name in row]
    return "_".join(words)


def _gpu_sets(device: torch.device, quick: bool, seed: int) -> Iterator[DeviceSet]:
    """Yield the wiki passages and the synthetic sets, whose graphs are built where they aren't."""
    index = wiki_index(quick)
    vectors = passage_vectors(index)
    queries = question_vectors(index.single, GPU_QUERIES // 10 if quick else GPU_QUERIES)
    yield DeviceSet("wiki", graph_over(vectors), queries, faiss.knn(queries, vectors, K)[1])
    faiss.omp_set_num_threads(os.cpu_count() or 1)  # nothing is measured on the CPU here
    for count, dims in GPU_SETS:
        drawn = synthetic((count // 100 if quick else count) + GPU_QUERIES, dims, seed)
        vectors, queries = drawn[GPU_QUERIES:], drawn[:GPU_QUERIES]
        truth = nearest_on(device, vectors, queries, K)
        yield DeviceSet(f"{len(vectors)}x{dims}", graph_over(vectors), queries, truth)


# Equal recall ---------------------------------------------------------------------------------


def _equal_recall(
    settings: Settings,
    graph: GraphIndex,
    vectors: NDArray[np.float32],
    queries: NDArray[np.float32],
    truth: NDArray[np.int64],
) -> Iterator[dict[str, Any]]:
    """Yield recall and speed of each contender at each effort, measured in turns."""
    engine = _engine(graph)
    hnsw, theirs = _hnswlib(vectors), _faiss_hnsw(vectors)

    def ours(effort: int) -> NDArray[np.int64]:
        return _search_all(engine, queries, effort) - 1  # labels are rows + 1

    def hnswlib_search(effort: int) -> NDArray[np.int64]:
        hnsw.set_ef(effort)
        return hnsw.knn_query(queries, k=K, num_threads=1)[0].astype(np.int64)

    def faiss_search(effort: int) -> NDArray[np.int64]:
        theirs.hnsw.efSearch = effort
        return theirs.search(queries, K)[1]

    contenders: dict[str, Callable[[int], NDArray[np.int64]]] = {
        "heddle": ours,
        "hnswlib": hnswlib_search,
        "faiss": faiss_search,
    }
    for effort in EFFORTS:
        times: dict[str, list[float]] = {name: [] for name in contenders}
        recalls = {}
        for _ in range(settings.repetitions + 1):  # the first one warms up
            for name, search in contenders.items():
                started_s = time.process_time()
                labels = search(effort)
                times[name].append(time.process_time() - started_s)
                recalls[name] = _recall(labels, truth)
        for name in contenders:
            qps = len(queries) / statistics.median(times[name][1:])
            print(f"{name:>8} effort {effort:>3}: recall {recalls[name]:.4f}, {qps:8.0f} queries/s")
            yield {"contender": name, "effort": effort, "recall": recalls[name], "qps": qps}


def _search_all(
    engine: SearchEngine[GraphSearch], queries: NDArray[np.float32], topm: int
) -> NDArray[np.int64]:
    """Search for all queries as the rows of one task."""
    engine.apply(_admit(0, queries, topm))
    while engine.has_work:
        for event in engine.step(0.0, WHOLE_S).events:
            return _hits(event).labels
    raise InternalError("a search has no answer")


def _cheapest(rows: list[dict[str, Any]], contender: str) -> dict[str, float]:
    """Return the least effort that reaches the recall; the greatest one where none does."""
    mine = [row for row in rows if row["contender"] == contender]
    return next((row for row in mine if row["recall"] >= RECALL), mine[-1])


def _recall(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    found = sum(len(np.intersect1d(a, b)) for a, b in zip(labels, truth, strict=True))
    return found / truth.size


# Poisson arrivals -----------------------------------------------------------------------------


def _poisson(
    settings: Settings, graph: GraphIndex, queries: NDArray[np.float32]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return what each policy achieves on each workload: medians over streams."""
    found = {}
    for workload in ("uniform", "mixed"):
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in POLICIES}
        for number in range(settings.streams):
            rng = np.random.default_rng(settings.seed + number)
            stream = list(_stream(rng, workload, settings.arrivals, len(queries)))
            capacity = _capacities_qps(graph, queries, stream)
            interval_s = 1.0 / (LOAD * capacity["static"])
            spread = [replace(arrival, at_s=arrival.at_s * interval_s) for arrival in stream]
            took = {
                name: _measured(spread, ends_s, capacity[name])
                for name, ends_s in _in_turns(graph, queries, spread).items()
            }
            for name, values in took.items():
                # Within a stream: the machine's speed, and so the load, changes between them.
                times = took["static"]["light_p95_ms"] / values["light_p95_ms"]
                runs[name].append({**values, "x_light_p95_static": times})
        found[workload] = {
            name: {key: statistics.median(run[key] for run in of) for key in of[0]}
            for name, of in runs.items()
        }
        for name, values in found[workload].items():
            print(
                f"{workload:>8} {name:>10}: " + ", ".join(f"{k} {v:.4g}" for k, v in values.items())
            )
    return found


def _capacities_qps(
    graph: GraphIndex, queries: NDArray[np.float32], stream: list[Arrival]
) -> dict[str, float]:
    """Return how many searches each policy ends in a second of work: medians of turns."""
    at_once = [replace(arrival, at_s=0.0) for arrival in stream]
    found: dict[str, list[float]] = {name: [] for name in POLICIES}
    for _ in range(CAPACITY_TURNS):
        for name, ends_s in _in_turns(graph, queries, at_once).items():
            found[name].append(len(stream) / max(ends_s))
    return {name: statistics.median(of) for name, of in found.items()}


def _stream(rng: np.random.Generator, workload: str, count: int, queries: int) -> Iterator[Arrival]:
    """Yield arrivals with a mean interval of 1 s."""
    at_s = 0.0
    for _ in range(count):
        at_s += rng.exponential()
        heavy = rng.random() < HEAVY_SHARE
        topm = UNIFORM if workload == "uniform" else HEAVY if heavy else LIGHT
        yield Arrival(at_s, int(rng.integers(queries)), topm)


def _in_turns(
    graph: GraphIndex, queries: NDArray[np.float32], stream: list[Arrival]
) -> dict[str, list[float]]:
    """Serve a stream by every policy; return when each search ended, by policy [s].

    The policy whose clock is behind goes on, so a slow moment of the machine slows all of them. It
    goes on for as long as a batch takes: one that works in short steps would else find its data
    out of the cache in each of them.
    """
    runs = {name: policy(_engine(graph), queries, stream) for name, policy in POLICIES.items()}
    clocks_s = dict.fromkeys(runs, 0.0)
    ends_s: dict[str, list[float]] = {}
    while clocks_s:
        name = min(clocks_s, key=clocks_s.__getitem__)
        until_s = clocks_s[name] + TURN_S
        try:
            while clocks_s[name] < until_s:
                clocks_s[name] = next(runs[name])
        except StopIteration as end:
            ends_s[name] = end.value
            del clocks_s[name]
    return {name: ends_s[name] for name in POLICIES}


def _continuous(
    engine: SearchEngine[GraphSearch], queries: NDArray[np.float32], stream: list[Arrival]
) -> Run:
    """Admit what has come before each step; steps are as long as the runtime would have them."""
    ends_s = [math.inf] * len(stream)
    waiting = deque(enumerate(stream))
    now_s, budget = 0.0, StepBudget()
    while waiting or engine.has_work:
        if not engine.has_work:
            now_s = max(now_s, waiting[0][1].at_s)
        started_s = time.process_time()
        while waiting and waiting[0][1].at_s <= now_s:
            number, arrival = waiting.popleft()
            engine.apply(_admit(number, queries[arrival.query][None], arrival.topm))
        events = engine.step(now_s, math.inf).events
        now_s += time.process_time() - started_s
        for event in events:
            assert _hits(event)
            ends_s[event.task_id] = now_s
            budget.learn(now_s - stream[event.task_id].at_s)
        if (moved_s := budget.moved_s()) is not None:
            engine.apply(Steer(budget_s=moved_s))
        yield now_s
    return ends_s


class StepBudget:
    """How long a step may be, by what searches take: the runtime's pass, which works beside a lane.

    Mutates: `learn` what a search took, `moved_s` the budget in force.
    """

    def __init__(self) -> None:
        self._pass = SplitSubstages()
        self._stage_s: float | None = None
        self._in_force_s: float | None = None

    def learn(self, took_s: float) -> None:
        """Fold in how long a search took from its arrival [s]."""
        self._stage_s = smoothed_s(self._stage_s, took_s)

    def moved_s(self) -> float | None:
        """Return the budget where it has moved by enough to be sent [s]."""
        kinds = frozenset({PrimitiveKind.SEARCHING})
        lane = EngineView("graph", kinds, 1, 0, Load(), None, self._stage_s, self._in_force_s)
        for edit in self._pass.apply(CycleView(0.0, (), {lane.name: lane})):
            assert isinstance(edit, SetBudget)
            self._in_force_s = edit.budget_s
            return edit.budget_s
        return None


def _batches(
    size: int,
) -> Callable[[SearchEngine[GraphSearch], NDArray[np.float32], list[Arrival]], Run]:
    """Return a policy that takes up to `size` waiting searches and answers all at their end."""

    def search(
        engine: SearchEngine[GraphSearch], queries: NDArray[np.float32], stream: list[Arrival]
    ) -> Run:
        ends_s: list[float] = []
        engine.apply(Steer(budget_s=WHOLE_S))
        now_s = 0.0
        while len(ends_s) < len(stream):
            first = len(ends_s)
            now_s = max(now_s, stream[first].at_s)
            last = first
            while last < len(stream) and last - first < size and stream[last].at_s <= now_s:
                last += 1
            started_s = time.process_time()
            for number in range(first, last):
                arrival = stream[number]
                engine.apply(_admit(number, queries[arrival.query][None], arrival.topm))
            while engine.has_work:
                for event in engine.step(now_s, math.inf).events:
                    assert _hits(event)
            now_s += time.process_time() - started_s
            ends_s += [now_s] * (last - first)
            yield now_s
        return ends_s

    return search


POLICIES: Final = {
    "continuous": _continuous,
    "static": _batches(STATIC_BATCH),
    "one by one": _batches(1),
}


def _measured(stream: list[Arrival], ends_s: list[float], capacity_qps: float) -> dict[str, float]:
    waits_ms = 1e3 * (np.array(ends_s) - [arrival.at_s for arrival in stream])
    topms = np.array([arrival.topm for arrival in stream])
    is_light = topms == topms.min()
    found = {
        "capacity_qps": capacity_qps,
        "mean_ms": float(waits_ms.mean()),
        "p99_ms": float(np.quantile(waits_ms, 0.99)),
        "light_p95_ms": float(np.quantile(waits_ms[is_light], 0.95)),
    }
    if not is_light.all():
        found["heavy_p95_ms"] = float(np.quantile(waits_ms[~is_light], 0.95))
    return found


def _engine(graph: GraphIndex) -> SearchEngine[GraphSearch]:
    return graph_engine("graph", 0, NumbaWorker(LiveGraph(graph), SLOTS), CpuClock())


def _admit(task_id: int, queries: NDArray[np.float32], topm: int) -> Admit:
    payload = SearchPayload(queries, K, topm=topm)
    return Admit(Task(task_id, PrimitiveKind.SEARCHING, Identity(task_id, "bench"), payload), 0)


def _hits(event: object) -> Hits:
    assert isinstance(event, Done), event
    assert isinstance(event.result, Hits), event
    return event.result


# What is made once ----------------------------------------------------------------------------


def passage_vectors(index: WikiIndex) -> NDArray[np.float32]:
    """Return the vectors of an index, [n, d]."""
    with CorpusStore.open(index.directory) as store:
        return np.concatenate([batch.vectors for batch in store.vectors()])


def prepared_graph(index: WikiIndex) -> GraphIndex:
    """Return our graph over an index, built where it isn't there; labels are rows + 1."""
    return graph_over(passage_vectors(index))


def graph_over(vectors: NDArray[np.float32]) -> GraphIndex:
    """Return our graph over vectors [n, d], built where it isn't there; labels are rows + 1."""
    path = _cached(MAGIC, vectors) / "graph"
    if not path.is_file():
        started_s, cpu_s = time.perf_counter(), time.process_time()
        labels = np.arange(1, len(vectors) + 1, dtype=np.int64)
        write_graph(path, build_graph(vectors, labels, on_phase=_told(len(vectors))))
        print(
            f"built our graph in {time.perf_counter() - started_s:.0f} s, "
            f"{time.process_time() - cpu_s:.0f} s of CPU (not measured)"
        )
    return open_graph(path)


def _told(count: int) -> Callable[[str, int, int], None]:
    """Return what prints how far a build is, each tenth of it."""
    told: set[tuple[str, int]] = set()

    def tell(phase: str, done: int, of: int) -> None:
        tenth = (phase, 10 * done // of)
        if count >= TOLD_FROM and tenth not in told:
            told.add(tenth)
            print(f"  {phase}: {10 * tenth[1]} %", flush=True)

    return tell


def _hnswlib(vectors: NDArray[np.float32]) -> hnswlib.Index:
    path = _cached("hnswlib", vectors) / "index"
    index = hnswlib.Index("l2", vectors.shape[1])
    if not path.is_file():
        started_s = time.process_time()
        index.init_index(len(vectors), M=M, ef_construction=EF_CONSTRUCTION)
        index.set_num_threads(1)
        index.add_items(vectors)
        index.save_index(str(path))
        print(f"built hnswlib's in {time.process_time() - started_s:.0f} s of CPU")
    else:
        index.load_index(str(path))
    return index


def _faiss_hnsw(vectors: NDArray[np.float32]) -> faiss.IndexHNSWFlat:
    path = _cached("faiss-hnsw", vectors) / "index"
    if not path.is_file():
        started_s = time.process_time()
        index = faiss.IndexHNSWFlat(vectors.shape[1], M)
        index.hnsw.efConstruction = EF_CONSTRUCTION
        index.add(vectors)
        faiss.write_index(index, str(path))
        print(f"built FAISS HNSW in {time.process_time() - started_s:.0f} s of CPU")
    return faiss.read_index(str(path))


def _cached(kind: str, vectors: NDArray[np.float32]) -> Path:
    ingredients = {"shape": list(vectors.shape), "sum": float(vectors.sum(dtype=np.float64))}
    return made_from(kind, {**ingredients, "m": M, "ef": EF_CONSTRUCTION})
