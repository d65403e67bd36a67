"""A graph on a device and the searches over it, in arrays of fixed shape."""

from typing import NamedTuple

import torch
from torch import Tensor

from heddle.engines.vector.graph.graph_index import GraphIndex


class DeviceGraph(NamedTuple):
    """The vectors and edges; row n stands for no vector, has zeros and leads to itself.

    Shapes: vectors [n + 1, d] float16; neighbours [n + 1, R] int32, n = none, R a power of two, as
    the kernel wants it; entries [e] int64.
    """

    vectors: Tensor
    neighbours: Tensor
    entries: Tensor

    @property
    def nodes(self) -> int:
        """Vectors in the graph, n."""
        return len(self.vectors) - 1

    @classmethod
    def of(cls, graph: GraphIndex, device: torch.device) -> "DeviceGraph":
        """Copy a graph to a device."""
        count, degree = graph.neighbours.shape
        vectors = torch.zeros((count + 1, graph.dims), dtype=torch.float16, device=device)
        vectors[:count] = torch.from_numpy(graph.vectors.copy()).to(device)
        width = 1 << (degree - 1).bit_length()
        neighbours = torch.full((count + 1, width), count, dtype=torch.int32, device=device)
        edges = torch.from_numpy(graph.neighbours.copy()).to(device)
        neighbours[:count, :degree] = torch.where(edges < 0, count, edges)
        return cls(vectors, neighbours, torch.from_numpy(graph.entries.copy()).to(device).long())


class Batch(NamedTuple):
    """The searches in flight, one a slot; no slot's result depends on another.

    Shapes (S slots, topM m, v a power of two): queries [S, d] float32; ids [S, m] int32, n = none,
    distances [S, m] float32 and is_expanded [S, m] int32 are the topM so far, ascending, equals by
    id; visited [S, v] int32 forgets: what shares a place pushes out what was there; is_over [S]
    int32: nothing of the topM is left to expand; extends [S] int32.
    """

    queries: Tensor
    ids: Tensor
    distances: Tensor
    is_expanded: Tensor
    visited: Tensor
    is_over: Tensor
    extends: Tensor

    @classmethod
    def empty(cls, graph: DeviceGraph, slots: int, topm: int, places: int) -> "Batch":
        """Return slots without searches."""
        device, n = graph.vectors.device, graph.nodes

        def filled(width: int, value: int) -> Tensor:
            return torch.full((slots, width), value, dtype=torch.int32, device=device)

        return cls(
            torch.zeros((slots, graph.vectors.shape[1]), device=device),
            filled(topm, n),
            torch.full((slots, topm), torch.inf, device=device),
            filled(topm, 1),
            filled(places, n),
            filled(1, 1)[:, 0],
            filled(1, 0)[:, 0],
        )


def nearest_first(distances: Tensor, ids: Tensor) -> Tensor:
    """Return the places of each row in the order of its topM: by distance, equals by id, [S, m]."""
    # Distances are not negative, so their bits order them.
    bits = distances.contiguous().view(torch.int32).long()
    return (bits << 32 | ids.long()).argsort(dim=1, stable=True)
