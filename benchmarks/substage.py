"""Search latency under Poisson arrivals: sub-stages against whole batched searches.

Who is compared with whom (HedraRAG fig. 18), over the same IVFFlat index, arrivals and thread:
A: our engine, which cuts searches into sub-stages of a time budget; the search that is due first
   says which clusters are read, and all others that want the same ones scan them with it.
B: whole searches: whenever it is free, FAISS searches all queries that wait, without lingering
   for more, in one call for each nprobe among them; the batch ends as a whole.
C: the same, but each call's queries have their results when that call ends, the shortest first
   (reported beside, as `x_p50_by_call` and `x_p99_by_call`).
The budget is that of `split_substages`, which follows what searches and sub-stages take, as in a
server: where sub-stages don't pay, A serves whole searches.
Each query asks for 64 to 512 clusters, drawn evenly. All run on clocks that advance by the CPU
time of each of their steps, so other work on the machine doesn't queue anybody, and take turns of
about a batch, so it slows all of them alike. Loads are shares of the capacity of B: how fast it
serves when all queries are there at once, measured before each load. Latencies are from arrival to
result; a headline ratio is the median of the repetitions, at the worst of all loads,
`capacity_ratio` A over B when all queries are there at once.
`identical`: every distance and id of A equals B's, bit for bit.

Where the CPU has more than AVX2, all is run again held to it; `worst_p50` and `worst_p99` are the
smaller ones of both runs, and `identical` is true of both. The other figures are the machine's own.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.ivf_step import Settings, prepared_index
from benchmarks.support.fixed_source import NoSource
from benchmarks.support.held_run import held_rows, marked
from heddle.core.commands import Admit, Steer
from heddle.core.frames import Done, Frame, Load
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.stepping_check import one_shot
from heddle.passes.cycle_view import CycleView, EngineView, SetBudget
from heddle.passes.split_substages import SplitSubstages
from heddle.runtime.search_meter import SearchMeter

K: Final = 10
LOADS: Final = (0.6, 0.75, 0.9)
NPROBES: Final = (64, 128, 256, 512)
REPETITIONS: Final = 9
TURN_S: Final = 0.05  # about a batch
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
    """One of the two ways to serve. `step` does some work and returns the finished queries."""

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
    repetitions = 1 if quick else REPETITIONS
    faiss.omp_set_num_threads(1)
    index, vectors = prepared_index(shape)
    make: dict[str, Callable[[], Searcher]] = {
        "whole": lambda: Whole(index),
        "by call": lambda: Whole(index, tells_each_call=True),
        "sub-stages": lambda: SubStages(index, len(vectors)),
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
        both = {name: make[name] for name in ("whole", "sub-stages")}
        for load in LOADS:
            capacity = {n: len(vectors) / one.now_s for n, one in serve(both, at_once).items()}
            queries = _queries(vectors, nprobes, np.cumsum(gaps) / (load * capacity["whole"]))
            rows.append(_compare(make, queries, load, capacity))
            print(_line(rows[-1]))
    own = marked(rows)
    beside = held_rows("substage", quick=quick, seed=seed)
    return {
        "settings": {**asdict(shape), "loads": LOADS, "nprobes": NPROBES},
        "rows": [*own, *beside],
        "headline": _with_worst(_headline(own), _headline(beside or own)),
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
    servings = serve(make, queries)
    for name, one in servings.items():
        row[name] = {
            "p50_ms": float(np.quantile(one.latencies_s, 0.5)) * 1e3,
            "p99_ms": float(np.quantile(one.latencies_s, 0.99)) * 1e3,
            "queries_per_s": len(queries) / one.now_s,
        }
    ours, theirs = servings["sub-stages"].found, servings["whole"].found
    row["identical"] = all(
        np.array_equal(mine, other)
        for number in theirs
        for mine, other in zip(ours[number], theirs[number], strict=True)
    )
    return row


class Serving:
    """One searcher under one stream of queries, on a clock that its work advances by CPU time.

    Args:
        searcher: who serves.
        queries: ordered by arrival.
    """

    def __init__(self, searcher: Searcher, queries: Sequence[Query]) -> None:
        self._searcher = searcher
        self._queries = queries
        self._coming = 0
        self.now_s = 0.0
        self.found: dict[int, Found] = {}
        self.latencies_s = np.zeros(len(queries))

    @property
    def is_over(self) -> bool:
        """Whether all queries have come and ended."""
        return self._coming == len(self._queries) and not self._searcher.has_work

    def step(self) -> None:
        """Take in what has come and do one step of work."""
        if not self._searcher.has_work:
            self.now_s = max(self.now_s, self._queries[self._coming].arrives_s)
        started_s = time.process_time()
        while self._coming < len(self._queries) and self._next.arrives_s <= self.now_s:
            self._searcher.admit(self._coming, self._next)
            self._coming += 1
        ended = self._searcher.step()
        self.now_s += time.process_time() - started_s
        for number in ended:
            self.latencies_s[number] = self.now_s - self._queries[number].arrives_s
        self.found.update(ended)

    @property
    def _next(self) -> Query:
        return self._queries[self._coming]


def serve(
    make: Mapping[str, Callable[[], Searcher]], queries: Sequence[Query]
) -> dict[str, Serving]:
    """Serve the same queries with all searchers, in turns: whose clock is behind goes on.

    So a slow moment of the machine slows all of them. A turn is as long as a batch: one that works
    in short steps would else find its data out of the cache in each of them.
    """
    servings = {name: Serving(start(), queries) for name, start in make.items()}
    while running := [one for one in servings.values() if not one.is_over]:
        behind = min(running, key=lambda one: one.now_s)
        until_s = behind.now_s + TURN_S
        while behind.now_s < until_s and not behind.is_over:
            behind.step()
    return servings


class OwnClock:
    """What the engine ranks its searches and measures its steps by: the CPU time of its own work.

    It stands while the others, which take turns with it, do theirs. On a clock that they advance as
    well a search would seem to wait three times as long, and long ones would overtake short ones.
    """

    def __init__(self) -> None:
        self._before_s, self._began_s = 0.0, 0.0

    def now_s(self) -> float:
        return self._before_s + time.process_time() - self._began_s

    @contextmanager
    def going(self) -> Iterator[None]:
        """Let it go on inside."""
        self._began_s = time.process_time()
        yield
        self._before_s = self.now_s()


class SubStages:
    """Our engine; the pass sets the length of its steps by what queries took, as in a server.

    Args:
        index: the vectors that are searched.
        slots: queries under way at most.
    """

    def __init__(self, index: faiss.IndexIVFFlat, slots: int) -> None:
        corpus = FollowedIvf(LiveIndex(index, 0), NoSource())
        self._clock = OwnClock()
        self._engine = ivf_engine("vector", 0, corpus, self._clock, slots=slots)
        self._arrived_s: dict[int, float] = {}
        self._meter = SearchMeter()
        self._budget_s: float | None = None

    @property
    def has_work(self) -> bool:
        return self._engine.has_work

    def admit(self, number: int, query: Query) -> None:
        self._arrived_s[number] = query.arrives_s
        payload = SearchPayload(query.vector, K, query.nprobe)
        identity = Identity(number, "search")
        task = Task(number, PrimitiveKind.SEARCHING, identity, payload)
        with self._clock.going():
            self._engine.apply(Admit(task, 0))

    def step(self) -> Mapping[int, Found]:
        ended = {}
        with self._clock.going():
            frame = self._engine.step(0.0, math.inf)
        self._meter.step(frame)
        for event in frame.events:
            assert isinstance(event, Done), event
            assert isinstance(event.result, Hits), event
            self._meter.ended(self._arrived_s[event.task_id], event.result.counts.lists_scanned)
            ended[event.task_id] = (event.result.distances[0], event.result.labels[0])
        self._steer(frame)
        return ended

    def _steer(self, frame: Frame) -> None:
        view = EngineView(
            self._engine.name,
            self._engine.kinds,
            in_flight=self._engine.rows_in_flight,
            pending=0,
            load=Load(),
            costs=frame.costs,
            stage_s=None,
            budget_s=self._budget_s,
            calls=self._meter.take(),
        )
        for edit in SplitSubstages().apply(CycleView(0.0, (), {view.name: view})):
            assert isinstance(edit, SetBudget), edit
            self._budget_s = edit.budget_s
            self._engine.apply(Steer(budget_s=edit.budget_s))


class Whole:
    """FAISS over all that waits, whole searches at once.

    Args:
        index: the vectors that are searched.
        tells_each_call: its results come call by call, else with the last call for a batch.
    """

    def __init__(self, index: faiss.IndexIVFFlat, *, tells_each_call: bool = False) -> None:
        self._index = index
        self._tells_each_call = tells_each_call
        self._waiting: dict[int, Query] = {}
        self._batch: dict[int, Query] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._batch)

    def admit(self, number: int, query: Query) -> None:
        self._waiting[number] = query

    def step(self) -> Mapping[int, Found]:
        if not self._batch:
            self._batch, self._waiting = self._waiting, {}
        ended: dict[int, Found] = {}
        while self._batch and not (ended and self._tells_each_call):
            ended.update(self._call(min(query.nprobe for query in self._batch.values())))
        return ended

    def _call(self, nprobe: int) -> dict[int, Found]:
        """Search for all queries of the batch that ask for `nprobe` clusters."""
        group = [n for n, query in self._batch.items() if query.nprobe == nprobe]
        vectors = np.concatenate([self._batch.pop(number).vector for number in group])
        distances, labels = one_shot(self._index, vectors, K, nprobe)
        return {number: (distances[row], labels[row]) for row, number in enumerate(group)}


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

    def faster(name: str, than: str = "whole") -> Callable[[Mapping[str, Any]], float]:
        return lambda row: row[than][name] / row["sub-stages"][name]

    return {
        "x_p50": worst(faster("p50_ms")),
        "x_p99": worst(faster("p99_ms")),
        "x_p50_by_call": worst(faster("p50_ms", "by call")),
        "x_p99_by_call": worst(faster("p99_ms", "by call")),
        "throughput_ratio": worst(lambda row: 1 / faster("queries_per_s")(row)),
        "capacity_ratio": worst(
            lambda row: row["capacity"]["sub-stages"] / row["capacity"]["whole"]
        ),
        "identical": int(all(row["identical"] for row in rows)),
    }


def _with_worst(own: dict[str, float], beside: Mapping[str, float]) -> dict[str, float]:
    """Return a machine's own headline, and the smaller figures of it and of the run beside it."""
    worst = {f"worst_{name}": min(own[f"x_{name}"], beside[f"x_{name}"]) for name in ("p50", "p99")}
    return {**own, **worst, "identical": min(own["identical"], beside["identical"])}


def _line(row: Mapping[str, Any]) -> str:
    ours, theirs = row["sub-stages"], row["whole"]
    return (
        f"load {row['load']:.2f}: p50 {ours['p50_ms']:7.2f} / {theirs['p50_ms']:7.2f} ms, "
        f"p99 {ours['p99_ms']:7.2f} / {theirs['p99_ms']:7.2f} ms, "
        f"{ours['queries_per_s']:6.1f} / {theirs['queries_per_s']:6.1f} queries/s "
        f"(sub-stages / whole), identical {row['identical']}"
    )
