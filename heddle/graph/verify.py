"""What every primitive graph must satisfy, before and after each pass."""

from heddle.core.errors import InternalError
from heddle.graph.pgraph import Edge, EdgeKind, PGraph, topological_order


def verify(graph: PGraph) -> None:
    """Check a graph.

    Raises:
        InternalError: a name used twice, an edge to nowhere, two writers of a key, a read that
            nothing provides, a read without its data edge, or a cycle.
    """
    names = [p.name for p in graph.primitives]
    if len(set(names)) != len(names):
        raise InternalError(f"a primitive's name is used twice in {names}")
    _check_edges_end_somewhere(graph, set(names))
    writers = _writers(graph)
    for primitive in graph.primitives:
        for key in primitive.reads:
            _check_read(graph, primitive.name, key, writers)
    if len(topological_order(graph)) != len(names):
        raise InternalError(f"a cycle among the primitives {names}")


def _check_edges_end_somewhere(graph: PGraph, names: set[str]) -> None:
    for edge in graph.edges:
        if edge.producer not in names or edge.consumer not in names:
            raise InternalError(f"dangling edge {edge}")


def _writers(graph: PGraph) -> dict[str, str]:
    writers: dict[str, str] = {}
    for primitive in graph.primitives:
        for key in primitive.writes:
            if key in writers or key in graph.inputs:
                raise InternalError(f"key {key!r} is written twice, by {primitive.name!r} again")
            writers[key] = primitive.name
    return writers


def _check_read(graph: PGraph, consumer: str, key: str, writers: dict[str, str]) -> None:
    if key in graph.inputs:
        return
    if key not in writers:
        raise InternalError(f"{consumer!r} reads {key!r}, which nothing writes")
    if Edge(writers[key], consumer, EdgeKind.DATA) not in graph.edges:
        raise InternalError(f"{consumer!r} reads {key!r} of {writers[key]!r} without a data edge")
