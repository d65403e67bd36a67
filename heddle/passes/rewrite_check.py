"""Checks the graph that a graph pass returns against the one that it was given."""

from heddle.core.errors import InternalError
from heddle.core.primitives import PrimitiveKind
from heddle.graph.pgraph import PGraph
from heddle.graph.verify import verify


def check_rewrite(before: PGraph, after: object) -> PGraph:
    """Return the graph that a pass has made of another.

    Raises:
        InternalError: it is no graph; it breaks one of the rules of `verify`; it lacks a value, an
            effect or a node of the graph before; it reads a key from outside that the graph before
            did not, which a request would wait for without end; or the name of a new primitive
            does not end in `@` and a turn.
    """
    if not isinstance(after, PGraph):
        raise InternalError(f"it returned {type(after).__name__}: return a PGraph, or None")
    verify(after)
    _check_nothing_is_lost(before, after)
    _check_what_is_new(before, after)
    return after


def _check_nothing_is_lost(before: PGraph, after: PGraph) -> None:
    written = {key for primitive in after.primitives for key in primitive.writes}
    names, nodes = after.by_name(), _nodes(after)
    for primitive in before.primitives:
        lost = [key for key in primitive.writes if key not in written]
        if lost:
            raise InternalError(f"no primitive writes {lost[0]!r} any more: keep its writer")
        if not primitive.writes and primitive.name not in names:
            raise InternalError(f"primitive {primitive.name!r} has an effect: keep it")
    if emptied := sorted(_nodes(before) - nodes):
        raise InternalError(f"node {emptied[0]!r} has no primitive any more: keep its last one")


def _check_what_is_new(before: PGraph, after: PGraph) -> None:
    if unknown := sorted(after.inputs - before.inputs):
        raise InternalError(
            f"inputs has {unknown[0]!r}, which the graph before had not: nothing may ever write "
            "it, so read only what its primitives write or its inputs name"
        )
    for name in after.by_name().keys() - before.by_name().keys():
        _, _, turn = name.rpartition("@")
        if turn == name or not (turn.isascii() and turn.isdecimal()):
            raise InternalError(
                f"the name of primitive {name!r} must end in @ and the turn of its node, such as "
                f"'{name}@0'"
            )


def _nodes(graph: PGraph) -> set[str]:
    """Return the nodes that a graph's primitives are of; a condition is none of its node's own."""
    return {p.node for p in graph.primitives if p.kind is not PrimitiveKind.CONDITION}
