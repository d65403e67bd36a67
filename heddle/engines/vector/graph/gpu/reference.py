"""An extend of every slot in torch's own operations: slow, and what the kernel is checked by."""

import torch
from torch import Tensor

from heddle.engines.vector.graph.gpu.batch import Batch, DeviceGraph, nearest_first

HASH_FACTOR, HASH_SHIFT = 0x9E3779B1, 7


def extend(graph: DeviceGraph, batch: Batch, parents: int) -> None:
    """Expand the nearest `parents` nodes of each topM that aren't expanded yet.

    Every slot has parents * degree tasks, even where it needs fewer: dummies lead to row n, whose
    distance is infinite. A visit that was forgotten costs a comparison, as the merge drops what
    is in the topM already.

    Mutates: batch.
    """
    n = graph.nodes
    chosen = _parents(batch, n, parents)
    is_parent = chosen < batch.ids.shape[1]
    padded = torch.cat([batch.ids, torch.full_like(batch.ids[:, :1], n)], dim=1)
    nodes = graph.neighbours[padded.gather(1, chosen).long()].flatten(1)
    nodes = _unvisited(batch.visited, nodes, n)
    distances = (graph.vectors[nodes.long()].float() - batch.queries[:, None]).square().sum(dim=2)
    # One column too many takes the marks of dummies.
    marks = torch.cat([batch.is_expanded, torch.zeros_like(batch.is_expanded[:, :1])], dim=1)
    batch.is_expanded.copy_(marks.scatter(1, chosen, 1)[:, :-1])
    batch.extends.add_(is_parent.any(dim=1).int())
    _merge(batch, nodes, distances.masked_fill(nodes == n, torch.inf), n)
    batch.is_over.copy_(((batch.is_expanded == 1) | (batch.ids == n)).all(dim=1))


def _parents(batch: Batch, n: int, count: int) -> Tensor:
    """Return the places of the nodes to expand, [S, count]; topM where there is none."""
    topm = batch.ids.shape[1]
    places = torch.arange(topm, device=batch.ids.device).expand_as(batch.ids)
    is_open = (batch.is_expanded == 0) & (batch.ids != n)
    return torch.where(is_open, places, topm).topk(count, dim=1, largest=False).values


def _unvisited(visited: Tensor, nodes: Tensor, n: int) -> Tensor:
    """Return nodes [S, t] with n in place of what was visited and of repetitions; note the rest.

    Of two nodes with one place either may stay: no result depends on it.
    """
    is_repeated = (nodes[:, :, None] == nodes[:, None, :]).tril(-1).any(dim=2)
    places = (nodes.long() * HASH_FACTOR >> HASH_SHIFT) & (visited.shape[1] - 1)
    is_known = visited.gather(1, places) == nodes
    fresh = torch.where(is_known | is_repeated, n, nodes)
    dummies = torch.where(fresh == n, visited.shape[1], places)
    wide = torch.cat([visited, visited[:, :1]], dim=1).scatter_(1, dummies, fresh)
    visited.copy_(wide[:, :-1])
    return fresh


def _merge(batch: Batch, nodes: Tensor, distances: Tensor, n: int) -> None:
    """Keep the nearest of the topM and the nodes, each once."""
    is_in = (nodes[:, :, None] == batch.ids[:, None, :]).any(dim=2)
    nodes = torch.where(is_in, n, nodes)
    distances = distances.masked_fill(is_in, torch.inf)
    ids = torch.cat([batch.ids, nodes], dim=1)
    distances = torch.cat([batch.distances, distances], dim=1)
    expanded = torch.cat([batch.is_expanded, torch.zeros_like(nodes)], dim=1)
    order = nearest_first(distances, ids)[:, : batch.ids.shape[1]]
    batch.distances.copy_(distances.gather(1, order))
    batch.ids.copy_(ids.gather(1, order))
    batch.is_expanded.copy_(expanded.gather(1, order))
