"""The primitive graph: frozen, so a pass can only return a new one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from heddle.graph.primitive import Primitive


class EdgeKind(Enum):
    """Why one primitive comes after another."""

    DATA = "data"  # the consumer reads what the producer writes
    EFFECT = "effect"  # no value passes, yet order matters: Ingestion before Searching
    ITEMS = "items"  # beside DATA: the consumer may begin with the items that are there
    ORDER = "order"  # inherited from the template; carries nothing


@dataclass(frozen=True, slots=True)
class Edge:
    """The consumer waits for the producer."""

    producer: str
    consumer: str
    kind: EdgeKind


@dataclass(frozen=True)
class PGraph:
    """Primitives and edges of one region of a request. (Teola §4.1)

    `inputs` are keys that are in the object store, or will be, from outside this graph.
    `tail` adds to the depth of a primitive what the template holds after this region.
    """

    primitives: tuple[Primitive, ...]
    edges: frozenset[Edge]
    inputs: frozenset[str] = frozenset()
    tail: Mapping[str, int] = field(default_factory=dict)

    def with_edges(self, edges: Iterable[Edge]) -> "PGraph":
        """Return the same primitives joined by other edges."""
        return replace(self, edges=frozenset(edges))

    def by_name(self) -> dict[str, Primitive]:
        """Return the primitives by name."""
        return {p.name: p for p in self.primitives}


def data_edges(primitives: Sequence[Primitive]) -> frozenset[Edge]:
    """Return an edge for every read of what another of the primitives writes."""
    writers = {key: p.name for p in primitives for key in p.writes}
    return frozenset(
        Edge(writers[key], p.name, EdgeKind.DATA)
        for p in primitives
        for key in p.reads
        if key in writers
    )


def outside_reads(primitives: Sequence[Primitive]) -> frozenset[str]:
    """Return the keys that are read and that none of the primitives writes."""
    written = {key for p in primitives for key in p.writes}
    return frozenset(key for p in primitives for key in p.reads if key not in written)


def topological_order(graph: PGraph) -> tuple[str, ...]:
    """Return the primitives' names, producers first; those on a cycle are missing."""
    waiting = {p.name: 0 for p in graph.primitives}
    after: dict[str, list[str]] = {p.name: [] for p in graph.primitives}
    for producer, consumer in {(e.producer, e.consumer) for e in graph.edges}:
        after[producer].append(consumer)
        waiting[consumer] += 1
    ready = [name for name, count in waiting.items() if count == 0]
    order: list[str] = []
    while ready:
        name = ready.pop(0)
        order.append(name)
        for consumer in sorted(after[name]):
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                ready.append(consumer)
    return tuple(order)


def depths(graph: PGraph) -> dict[str, int]:
    """Return each primitive's depth: the longest way to the output, the output smallest.

    Source: Teola Algorithm 2, event 1.
    Deviates: the released prototype ranks by position in topological order, nearest to the
        output first; the paper takes the deepest first, and so do we.
    """
    after: dict[str, list[str]] = {p.name: [] for p in graph.primitives}
    for edge in graph.edges:
        after[edge.producer].append(edge.consumer)
    found: dict[str, int] = {}
    for name in reversed(topological_order(graph)):
        below = max((found[c] + 1 for c in after[name]), default=0)
        found[name] = max(below, graph.tail.get(name, 0))
    return found
