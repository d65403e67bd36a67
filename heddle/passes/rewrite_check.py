"""Checks the graph that a graph pass returns against the one that it was given."""

from heddle.core.errors import InternalError
from heddle.graph.pgraph import PGraph
from heddle.graph.verify import verify


def check_rewrite(before: PGraph, after: object) -> PGraph:
    """Return the graph that a pass has made of another.

    Raises:
        InternalError: it is no graph, it breaks one of the rules of `verify`, or it lacks a value
            or an effect of the graph before: what comes later would wait for it for ever.
    """
    if not isinstance(after, PGraph):
        raise InternalError(f"it returned {type(after).__name__}: return a PGraph, or None")
    verify(after)
    written = {key for primitive in after.primitives for key in primitive.writes}
    names = after.by_name()
    for primitive in before.primitives:
        lost = [key for key in primitive.writes if key not in written]
        if lost:
            raise InternalError(f"no primitive writes {lost[0]!r} any more: keep its writer")
        if not primitive.writes and primitive.name not in names:
            raise InternalError(f"primitive {primitive.name!r} has an effect: keep it")
    return after
