"""`hot-clusters` and `graph-search` on a GPU, over vectors that are drawn here."""

import time
from typing import Any, Final

import numpy as np
import torch

from benchmarks.gpu.place import Note, Place
from benchmarks.hot_clusters import device_rows
from benchmarks.support.device_scan import copy_bandwidth
from benchmarks.support.gpu_graph import gpu_rows, nearest_on, neighbours_on, synthetic
from heddle.core.commands import Admit
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.graph.gpu.device_worker import DeviceWorker
from heddle.engines.vector.graph.gpu.search import extend_by_kernel
from heddle.engines.vector.graph.graph_index import GraphIndex, build_graph
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.perf_clock import PerfClock

K: Final = 10
HOT_SETS: Final = ((1_000_000, 384), (10_000_000, 96))
GRAPH_SETS: Final = ((200_000, 384), (1_000_000, 96))


def hot_clusters(place: Place, note: Note) -> dict[str, float]:
    """Scan blocks of random vectors on the device, beside a full scan."""
    bandwidth = copy_bandwidth(place.device, place.sized(1 << 31, 1 << 16))
    found = {"copy_gb_per_s": bandwidth / 1e9}
    for count, dims in place.sized(HOT_SETS, ((256, 16),)):
        for row in device_rows(place.device, count, dims, bandwidth, seed=0):
            note(row)
            if row["queries"] == 64:
                name = f"{row['method']}_{count}x{dims}"
                found[f"qps_{name}"] = row["qps"]
                found[f"bandwidth_share_{name}"] = row["bandwidth_share"]
    return found


def graph_small(place: Place, note: Note) -> dict[str, float]:
    """Search a graph of 200,000 vectors of 384 dimensions."""
    return _graph(place, note, *place.sized(GRAPH_SETS[0], (300, 16)))


def graph_large(place: Place, note: Note) -> dict[str, float]:
    """Search a graph of a million vectors of 96 dimensions."""
    return _graph(place, note, *place.sized(GRAPH_SETS[1], (400, 8)))


def _graph(place: Place, note: Note, count: int, dims: int) -> dict[str, float]:
    """Search in many slots at once, beside a full scan, and cuVS CAGRA where it is installed."""
    questions = place.sized(1000, 1)
    drawn = synthetic(count + questions, dims, seed=0)
    vectors, queries = np.ascontiguousarray(drawn[questions:]), drawn[:questions]
    truth = nearest_on(place.device, vectors, queries, K)
    graph, seconds = _built(place.device, vectors)
    note({"built": f"{count} x {dims}", "degree": graph.neighbours.shape[1], "seconds": seconds})
    how: dict[str, Any] = place.sized({}, {"slots": 1, "shapes": ((16, 1),), "rounds": 1})
    found: dict[str, float] = {"build_s": seconds}
    for row in gpu_rows(place.device, graph, queries, truth, extend_by_kernel, **how):
        note(row)
        sizes = "".join(f"_{key[0]}{row[key]}" for key in ("topm", "parents") if key in row)
        name = f"{row['method'].replace(' ', '_')}{sizes}"
        found |= {f"{key}_{name}": float(row[key]) for key in ("qps", "recall")}
    found["qps_served"] = _served(graph, place, queries)
    note({"method": "served", "qps": found["qps_served"]})
    return found


def _served(graph: GraphIndex, place: Place, queries: np.ndarray) -> float:
    """Return the searches a second of a lane's engine over the device, which come all at once."""
    worker = DeviceWorker(LiveGraph(graph), place.device, place.sized(256, 1))
    engine = graph_engine("graph", 0, worker, PerfClock(), runnable=worker.slot_count)
    for number, query in enumerate(queries):
        payload = SearchPayload(query[None], K)
        identity = Identity(number, "search")
        engine.apply(Admit(Task(number, PrimitiveKind.SEARCHING, identity, payload), 0))
    started_s, done = time.perf_counter(), 0
    while engine.has_work:
        done += len(engine.step(time.perf_counter(), 0.01).events)
    return done / (time.perf_counter() - started_s)


def _built(device: torch.device, vectors: np.ndarray) -> tuple[GraphIndex, float]:
    """Return a graph whose neighbours the device finds, and how long that took [s]."""
    started_s = time.perf_counter()
    labels = np.arange(len(vectors), dtype=np.int64)
    graph = build_graph(vectors, labels, find_neighbours=neighbours_on(device))
    return graph, time.perf_counter() - started_s
