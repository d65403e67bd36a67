"""An IVF search cut into steps, over the same search in one call.

A: our engine (`ivf_engine` over `FollowedIvf`), 32 queries, 8 clusters a query and step, from
   the admission of the tasks to their last Done: planning, frames and cost model included.
B: FAISS alone: `IndexIVFFlat.search` of the same 32 queries in one call, on the same index.

CPU time of this process with one FAISS thread, A and B in turns, medians. `identical` says that
ids and distances are equal bit for bit, at every nprobe and in every variant.
"""

import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.support.data import made_from
from benchmarks.support.fixed_source import NoSource
from heddle.core.commands import Admit, Steer
from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.search import IvfSearch
from heddle.engines.vector.ivf.stepping_check import one_shot
from heddle.engines.vector.perf_clock import PerfClock

NPROBES = (64, 256)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """What is searched, and how it is cut."""

    count: int
    nlist: int
    seed: int
    dims: int = 384
    k: int = 10
    batch: int = 32
    lists_per_step: int = 8
    repetitions: int = 25
    topics: int = 60
    subtopics: int = 40
    rank: int = 24


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run the comparison; returns settings, one row for each measurement, and the headline."""
    settings = (
        Settings(count=20_000, nlist=320, seed=seed, repetitions=5)
        if quick
        else Settings(count=200_000, nlist=1024, seed=seed)
    )
    faiss.omp_set_num_threads(1)
    index, queries = prepared_index(settings)
    print(
        f"A: heddle stepping, {settings.lists_per_step} clusters a query and step; "
        f"B: FAISS {faiss.__version__} one-shot. {settings.count} x {settings.dims}, "
        f"nlist {settings.nlist}, k {settings.k}, batch {settings.batch}, 1 thread, CPU time."
    )
    rows = [
        _compare(index, queries, settings, nprobe, one_task, budget_s)
        for nprobe in NPROBES
        for one_task, budget_s in ((False, math.inf), (True, math.inf), (False, 2e-3))
    ]
    for row in rows:
        print(
            f"nprobe {row['nprobe']:>3}, {row['variant']:<34} A {row['a_ms']:7.2f} ms in "
            f"{row['steps']:>3} steps, B {row['b_ms']:7.2f} ms, A/B {row['x_oneshot']:.3f}, "
            f"identical {row['identical']}"
        )
    headline: dict[str, float] = {"identical": int(all(row["identical"] for row in rows))}
    for nprobe in NPROBES:
        # The first variant is the one that is barred: 32 requests of one query each.
        barred = next(row for row in rows if row["nprobe"] == nprobe)
        headline[f"x_oneshot_{nprobe}"] = round(barred["x_oneshot"], 3)
    return {"settings": asdict(settings), "rows": rows, "headline": headline}


def _compare(
    index: faiss.IndexIVFFlat,
    queries: NDArray[np.float32],
    settings: Settings,
    nprobe: int,
    one_task: bool,
    budget_s: float,
) -> dict[str, Any]:
    """Time A and B in turns over the same queries."""
    corpus = FollowedIvf(LiveIndex(index, 0), NoSource())
    engine = ivf_engine(
        "vector",
        0,
        corpus,
        PerfClock(),
        slots=settings.batch,
        lists_per_step=settings.lists_per_step if math.isinf(budget_s) else None,
    )
    engine.apply(Steer(budget_s=budget_s))
    payloads = [queries] if one_task else [queries[i : i + 1] for i in range(len(queries))]
    ratios: list[float] = []
    a_s: list[float] = []
    b_s: list[float] = []
    identical, steps = True, 0
    for repetition in range(settings.repetitions + 1):
        stepped, a = _timed(lambda: _search(engine, payloads, settings.k, nprobe))
        expected, b = _timed(lambda: one_shot(index, queries, settings.k, nprobe))
        hits, steps = stepped
        distances = np.concatenate([h.distances for h in hits])
        labels = np.concatenate([h.labels for h in hits])
        identical &= np.array_equal(distances, expected[0]) and np.array_equal(labels, expected[1])
        if repetition:  # the first one warms up
            a_s, b_s, ratios = [*a_s, a], [*b_s, b], [*ratios, a / b]
    variant = "1 task of 32" if one_task else "32 tasks of 1"
    if not math.isinf(budget_s):
        variant += f", steps of {budget_s * 1e3:g} ms"
    return {
        "nprobe": nprobe,
        "variant": variant,
        "steps": steps,
        "a_ms": statistics.median(a_s) * 1e3,
        "b_ms": statistics.median(b_s) * 1e3,
        "x_oneshot": statistics.median(ratios),
        "x_oneshot_min": min(ratios),
        "x_oneshot_max": max(ratios),
        "identical": bool(identical),
    }


def _search(
    engine: SearchEngine[IvfSearch], payloads: list[NDArray[np.float32]], k: int, nprobe: int
) -> tuple[list[Hits], int]:
    """Admit one task for each payload and step until all are done; return hits and steps."""
    for task_id, queries in enumerate(payloads):
        payload = SearchPayload(queries, k, nprobe)
        identity = Identity(task_id, "search")
        engine.apply(Admit(Task(task_id, PrimitiveKind.SEARCHING, identity, payload), 0))
    hits: dict[int, Hits] = {}
    steps = 0
    while engine.has_work:
        for event in engine.step(0.0, math.inf).events:
            assert isinstance(event, Done), event
            assert isinstance(event.result, Hits), event
            hits[event.task_id] = event.result
        steps += 1
    return [hits[task_id] for task_id in range(len(payloads))], steps


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started_s = time.process_time()
    result = work()
    return result, time.process_time() - started_s


def prepared_index(settings: Settings) -> tuple[faiss.IndexIVFFlat, NDArray[np.float32]]:
    """Return index and queries, from the cache where they are there."""
    shared = ("repetitions", "batch", "lists_per_step", "k")  # these change nothing on disk
    path = made_from(
        "ivf-step", {name: value for name, value in asdict(settings).items() if name not in shared}
    ).joinpath("index.faiss")
    vectors_of = _Mixture(settings)
    if not path.exists():
        started_s = time.perf_counter()
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        faiss.write_index(_build(settings, vectors_of), str(temporary))
        temporary.replace(path)
        print(f"prepared the index in {time.perf_counter() - started_s:.0f} s (not measured)")
    return faiss.read_index(str(path)), vectors_of.queries(settings.batch)


def _build(settings: Settings, mixture: "_Mixture") -> faiss.IndexIVFFlat:
    quantizer = faiss.IndexFlatL2(settings.dims)
    index = faiss.IndexIVFFlat(quantizer, settings.dims, settings.nlist, faiss.METRIC_L2)
    index.cp.seed = settings.seed + 1
    index.cp.max_points_per_centroid = 64
    vectors = mixture.vectors()
    index.train(vectors)
    index.add(vectors)
    return index


class _Mixture:
    """Topics, their subtopics, and low-rank noise in each topic, on the unit sphere.

    Subtopics are Zipf-skewed, so that inverted lists come out as uneven as with real text.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        rng = np.random.default_rng(settings.seed)
        topics, subtopics, dims = settings.topics, settings.subtopics, settings.dims
        centres = _unit(rng.standard_normal((topics, 1, dims)))
        spread = 0.9 * rng.standard_normal((topics, subtopics, dims)) / math.sqrt(dims)
        self._centres = (centres + spread).reshape(-1, dims).astype(np.float32)
        bases = rng.standard_normal((topics, settings.rank, dims)) / math.sqrt(dims)
        decay = 1 / np.sqrt(np.arange(1, settings.rank + 1))
        self._bases = (0.8 * bases * decay[:, None]).astype(np.float32)
        weights = rng.permutation(1 / np.arange(1, topics * subtopics + 1) ** 0.8)
        self._weights = weights / weights.sum()

    def vectors(self) -> NDArray[np.float32]:
        """Return the corpus, [count, dims]."""
        return self._draw(self._settings.count, np.random.default_rng(self._settings.seed + 1))

    def queries(self, count: int) -> NDArray[np.float32]:
        """Return queries from the same mixture, [count, dims]."""
        return self._draw(count, np.random.default_rng(self._settings.seed + 2))

    def _draw(self, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
        settings = self._settings
        chosen = np.sort(rng.choice(len(self._weights), count, p=self._weights))
        drawn = np.empty((count, settings.dims), np.float32)
        for topic in range(settings.topics):
            here = np.flatnonzero(chosen // settings.subtopics == topic)
            noise = rng.standard_normal((len(here), settings.dims), dtype=np.float32)
            shape = rng.standard_normal((len(here), settings.rank), dtype=np.float32)
            drawn[here] = self._centres[chosen[here]] + shape @ self._bases[topic]
            drawn[here] += 0.25 / math.sqrt(settings.dims) * noise
        return _unit(drawn[rng.permutation(count)]).astype(np.float32)


def _unit(values: NDArray[np.floating]) -> NDArray[np.floating]:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)
