"""Searches of a graph in the slots of a device, several extends between two looks at them."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.engines.vector.graph.gpu import reference
from heddle.engines.vector.graph.gpu.batch import Batch, DeviceGraph, nearest_first
from heddle.engines.vector.graph.graph_index import GraphIndex
from heddle.engines.vector.search import SortedHits

EXTENDS_PER_LOOK: Final = 4  # a look costs as much as some extends
SEEDS: Final = 8
PLACES: Final = 1 << 12
KERNEL_DIMS: Final = 64  # coordinates that the kernel reads at once

Extend = Callable[[DeviceGraph, Batch, int], None]


def extend_by_kernel(graph: DeviceGraph, batch: Batch, parents: int) -> None:
    """Do what `reference.extend` does, in one kernel. Mutates: batch."""
    # Late: triton is an extra, and only a GPU needs it.
    from heddle.engines.vector.graph.gpu.kernels import extend_slots

    with torch.cuda.device_of(batch.ids):  # type: ignore[no-untyped-call]
        extend_slots[(len(batch.ids),)](
            *(graph.vectors, graph.neighbours),
            *batch,
            graph.nodes,
            TOPM=batch.ids.shape[1],
            PARENTS=parents,
            DEGREE=graph.neighbours.shape[1],
            PLACES=batch.visited.shape[1],
            DIMS=graph.vectors.shape[1],
            BLOCK_D=KERNEL_DIMS,
        )


class DeviceSearch:
    """Searches join and leave between two looks; each advance extends all slots together.

    On a GPU the extends between two looks are captured once and replayed, as their shapes never
    change. A search's hits don't depend on the searches beside it.

    Args:
        graph: what is searched.
        device: where.
        slots: searches at once.
        topm: candidates that each keeps, a power of two.
        parents: nodes that an extend expands, a power of two.
        extend: how.
        on_device: the graph's copy there, which several of these may share; None = one is made.

    Raises:
        ConfigError: topm or parents isn't a power of two.
    """

    def __init__(
        self,
        graph: GraphIndex,
        device: torch.device,
        *,
        slots: int,
        topm: int,
        parents: int = 1,
        extend: Extend = reference.extend,
        on_device: DeviceGraph | None = None,
    ) -> None:
        for name, value in (("topm", topm), ("parents", parents)):
            if value < 1 or value & value - 1:
                raise ConfigError(f"graph {name}: need a power of two on a device, got {value}")
        self._labels = graph.labels
        self._graph = DeviceGraph.of(graph, device) if on_device is None else on_device
        self._batch = Batch.empty(self._graph, slots, topm, PLACES)
        self._parents, self._extend = parents, extend
        self._replayed = self._captured() if device.type == "cuda" else None

    def start(self, slots: Sequence[int], queries: NDArray[np.float32]) -> None:
        """Start searches in free slots, from the entry points nearest to them. [m, d]"""
        graph, batch = self._graph, self._batch
        at = torch.tensor(slots, device=graph.vectors.device)
        on_device = torch.from_numpy(queries).to(graph.vectors.device)
        entries = graph.vectors[graph.entries].float()
        offsets = torch.cdist(on_device, entries, compute_mode="donot_use_mm_for_euclid_dist")
        seeds = min(SEEDS, batch.ids.shape[1], len(entries))
        nodes = graph.entries[offsets.topk(seeds, dim=1, largest=False).indices]
        # Measured as an extend does: a squared root is no squared distance to the last bit.
        nearest = (graph.vectors[nodes].float() - on_device[:, None]).square().sum(dim=2)
        order = nearest_first(nearest, nodes)
        batch.queries[at] = on_device
        batch.ids[at] = graph.nodes
        batch.distances[at] = torch.inf
        batch.is_expanded[at] = 1
        batch.visited[at] = graph.nodes
        rows = at[:, None].expand_as(nodes), torch.arange(seeds, device=at.device)
        batch.ids[rows] = nodes.gather(1, order).int()
        batch.distances[rows] = nearest.gather(1, order)
        batch.is_expanded[rows] = 0
        batch.is_over[at] = 0
        batch.extends[at] = 0

    def advance(self) -> NDArray[np.bool_]:
        """Extend every search a few times; return which slots have nothing left to do, [S]."""
        if self._replayed is not None:
            self._replayed.replay()
        else:
            self._extend_all()
        is_over: NDArray[np.bool_] = self._batch.is_over.cpu().numpy() == 1
        return is_over

    def top(self, slots: Sequence[int], k: int) -> SortedHits:
        """Return the distances and labels of the k nearest so far, [m, k]; (inf, -1) = none."""
        distances, nodes = self.nodes(slots, k)
        return distances, np.append(self._labels, -1)[nodes]

    def nodes(self, slots: Sequence[int], k: int) -> SortedHits:
        """Return the distances and nodes of the k nearest so far, [m, k]; (inf, -1) = none."""
        at = torch.tensor(slots, device=self._graph.vectors.device)
        nodes = self._batch.ids[at, :k].cpu().numpy().astype(np.int64)
        nodes[nodes == self._graph.nodes] = -1
        return self._batch.distances[at, :k].cpu().numpy(), nodes

    @property
    def extends(self) -> NDArray[np.int32]:
        """How many extends the search of each slot has made, [S]."""
        made: NDArray[np.int32] = self._batch.extends.cpu().numpy()
        return made

    def _extend_all(self) -> None:
        for _ in range(EXTENDS_PER_LOOK):
            self._extend(self._graph, self._batch, self._parents)

    def _captured(self) -> torch.cuda.CUDAGraph:
        """Record the extends between two looks, after a run that compiles their kernels."""
        device = self._graph.vectors.device
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # Else the run may read slots before they are filled, and follow edges that aren't there.
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            self._extend_all()
        torch.cuda.current_stream(device).wait_stream(side)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            self._extend_all()
        return recorded
