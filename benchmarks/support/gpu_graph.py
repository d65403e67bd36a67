"""Graph search on a GPU beside a full scan by torch, and cuVS CAGRA where it is installed."""

import importlib
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.support.device_scan import copy_bandwidth, full_scan, median_s
from heddle.engines.vector.graph.gpu.search import DeviceSearch, Extend
from heddle.engines.vector.graph.graph_index import FindNeighbours, GraphIndex
from heddle.engines.vector.graph.knn import NO_CLUSTER, Neighbours

COPIED_BYTES: Final = 1 << 30
ROUNDS: Final = 5
MEMBERS_PER_TOPIC: Final = 1000
CAGRA_TOPM: Final = (32, 64, 128)
BLOCK_ROWS: Final = 1 << 20
SCANNED_TOGETHER: Final = 1024


def synthetic(count: int, dims: int, seed: int) -> NDArray[np.float32]:
    """Return vectors of unit length around random topics, [count, dims]."""
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((max(1, count // MEMBERS_PER_TOPIC), dims), dtype=np.float32)
    drawn = np.empty((count, dims), np.float32)
    for first in range(0, count, BLOCK_ROWS):
        part = drawn[first : first + BLOCK_ROWS]
        part[:] = topics[rng.integers(0, len(topics), len(part))]
        part += rng.standard_normal(part.shape, dtype=np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return drawn


def nearest_on(
    device: torch.device, vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> NDArray[np.int64]:
    """Return the rows of each query's k nearest by a full scan in float32, [q, k]."""
    plain = torch.from_numpy(vectors).to(device)
    found: NDArray[np.int64] = full_scan(plain, plain.square().sum(dim=1), queries, k)[1].numpy()
    return found


def neighbours_on(device: torch.device) -> FindNeighbours:
    """Return what finds the neighbours of a graph that is built, by full scans on a device."""

    def find(
        vectors: NDArray[np.float32],
        centroids: NDArray[np.float32],
        lists: NDArray[np.int64],
        k: int,
        near_lists: int,
    ) -> Iterator[Neighbours]:
        scanned = np.flatnonzero(lists != NO_CLUSTER)
        vectors = vectors[scanned]
        plain = torch.from_numpy(vectors).to(device)
        norms = plain.square().sum(dim=1)
        for first in range(0, len(vectors), SCANNED_TOGETHER):
            of = np.arange(first, min(first + SCANNED_TOGETHER, len(vectors)))
            distances, rows = full_scan(plain, norms, vectors[of], min(k + 1, len(vectors)))
            # Mostly the nearest is the vector itself; where it isn't, the farthest gives way.
            is_other = rows.numpy() != of[:, None]
            is_other[is_other.all(axis=1), -1] = False
            shape = len(of), rows.shape[1] - 1
            near = scanned[rows.numpy()[is_other]].reshape(shape).astype(np.int32)
            squares = distances + torch.from_numpy(vectors[of]).square().sum(dim=1, keepdim=True)
            yield Neighbours(scanned[of], near, squares.numpy()[is_other].reshape(shape))

    return find


def gpu_rows(
    device: torch.device,
    graph: GraphIndex,
    queries: NDArray[np.float32],
    truth: NDArray[np.int64],
    extend: Extend,
    slots: int = 256,
    shapes: tuple[tuple[int, int], ...] = ((32, 1), (64, 1), (64, 4), (128, 4)),
    rounds: int = ROUNDS,
) -> Iterator[dict[str, Any]]:
    """Yield recall and speed for each (topM, parents), of the full scan, and of cuVS CAGRA.

    Searches join a slot as soon as one is over. `bandwidth_share` is what the searches read of
    vectors over what a large copy on the same device gets.

    Shapes: queries [q, d]; truth [q, k], rows of the graph.
    """
    k = truth.shape[1]
    bandwidth = copy_bandwidth(device, COPIED_BYTES)
    for topm, parents in shapes:
        search = DeviceSearch(graph, device, slots=slots, topm=topm, parents=parents, extend=extend)
        found, extends = _search_all(search, queries, slots, k)
        seconds = median_s(device, lambda s=search: _search_all(s, queries, slots, k), rounds)
        row_bytes = graph.dims * graph.vectors.itemsize
        read = extends * parents * graph.neighbours.shape[1] * row_bytes
        yield {
            "method": "graph",
            "topm": topm,
            "parents": parents,
            "recall": _recall(found, graph.labels[truth]),
            "qps": len(queries) / seconds,
            "bandwidth_share": read / seconds / bandwidth,
        }
    plain = torch.from_numpy(graph.vectors.copy()).to(device)
    norms = plain.float().square().sum(dim=1)
    found = graph.labels[full_scan(plain, norms, queries, k)[1].numpy()]
    seconds = median_s(device, lambda: full_scan(plain, norms, queries, k), ROUNDS)
    yield {
        "method": "full scan",
        "recall": _recall(found, graph.labels[truth]),
        "qps": len(queries) / seconds,
        "bandwidth_share": plain.nbytes / seconds / bandwidth,
    }
    yield from _cagra_rows(device, plain, queries, truth, graph.neighbours.shape[1])


def _cagra_rows(
    device: torch.device,
    plain: torch.Tensor,
    queries: NDArray[np.float32],
    truth: NDArray[np.int64],
    degree: int,
) -> Iterator[dict[str, Any]]:
    """Yield recall and speed of cuVS CAGRA over the same float16 vectors, all queries at once.

    Written by its documentation (cuvs.neighbors.cagra), which doesn't say how many vectors a search
    reads.
    """
    try:
        cagra: Any = importlib.import_module("cuvs.neighbors.cagra")
    except ImportError:
        print("cuVS CAGRA: left out, as it isn't installed")
        return
    k = truth.shape[1]
    on_device = torch.from_numpy(queries).to(plain)
    built = cagra.IndexParams(
        metric="sqeuclidean", graph_degree=degree, intermediate_graph_degree=2 * degree
    )
    index = cagra.build(built, plain)
    for topm in CAGRA_TOPM:
        params = cagra.SearchParams(itopk_size=topm)
        rows = cagra.search(params, index, on_device, k)[1].copy_to_host().astype(np.int64)
        seconds = median_s(device, lambda p=params: cagra.search(p, index, on_device, k), ROUNDS)
        yield {
            "method": "cagra",
            "topm": topm,
            "recall": _recall(rows, truth),
            "qps": len(queries) / seconds,
        }


def _search_all(
    search: DeviceSearch, queries: NDArray[np.float32], slots: int, k: int
) -> tuple[NDArray[np.int64], int]:
    """Return the labels of each query's hits, [q, k], and how many extends it took."""
    found = np.full((len(queries), k), -1, np.int64)
    waiting, free = deque(range(len(queries))), list(range(slots))
    running: dict[int, int] = {}
    extends = 0
    while waiting or running:
        count = min(len(free), len(waiting))
        if count:
            started = {free.pop(): waiting.popleft() for _ in range(count)}
            search.start(list(started), queries[list(started.values())])
            running |= started
        is_over = search.advance()
        over = [slot for slot in running if is_over[slot]]
        if over:
            extends += int(search.extends[over].sum())
            found[[running.pop(slot) for slot in over]] = search.top(over, k)[1]
            free += over
    return found, extends


def _recall(found: NDArray[np.int64], nearest: NDArray[np.int64]) -> float:
    return float((found[:, :, None] == nearest[:, None, :]).any(axis=1).mean())
