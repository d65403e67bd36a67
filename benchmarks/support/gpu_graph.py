"""Graph search on a GPU beside a full scan by torch, over vectors whose graph exists."""

import importlib.util
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.support.device_scan import copy_bandwidth, full_scan, median_s
from heddle.engines.vector.graph.gpu.search import DeviceSearch, Extend
from heddle.engines.vector.graph.graph_index import GraphIndex

COPIED_BYTES: Final = 1 << 30
ROUNDS: Final = 5


def gpu_rows(
    device: torch.device,
    graph: GraphIndex,
    queries: NDArray[np.float32],
    truth: NDArray[np.int64],
    extend: Extend,
    slots: int = 256,
    shapes: tuple[tuple[int, int], ...] = ((32, 1), (64, 1), (64, 4), (128, 4)),
) -> Iterator[dict[str, Any]]:
    """Yield recall and speed for each (topM, parents), and of the full scan.

    Searches join a slot as soon as one is over. `bandwidth_share` is what the searches read of
    vectors over what a large copy on the same device gets.

    Shapes: queries [q, d]; truth [q, k], rows of the graph.
    """
    k = truth.shape[1]
    bandwidth = copy_bandwidth(device, COPIED_BYTES)
    if importlib.util.find_spec("cuvs") is None:
        print("cuVS CAGRA: left out, as it isn't installed")
    for topm, parents in shapes:
        search = DeviceSearch(graph, device, slots=slots, topm=topm, parents=parents, extend=extend)
        found, extends = _search_all(search, queries, slots, k)
        seconds = median_s(device, lambda s=search: _search_all(s, queries, slots, k), ROUNDS)
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
