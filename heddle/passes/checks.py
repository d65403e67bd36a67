"""What a pass may return: checked after each one, ours and users' alike."""

import math
from collections.abc import Sequence

from heddle.core.errors import InternalError
from heddle.graph.pgraph import PGraph
from heddle.graph.verify import verify
from heddle.passes.cycle_view import CycleView, Edit


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


def check_edits(edits: object, view: CycleView) -> tuple[Edit, ...]:
    """Return the edits that a pass asks for.

    Raises:
        InternalError: one is no edit, names an engine that isn't there, or promises no number.
    """
    if not isinstance(edits, Sequence):
        raise InternalError(f"it returned {type(edits).__name__}: return a tuple of edits")
    for edit in edits:
        _check_edit(edit, view)
    return tuple(edits)


def _check_edit(edit: object, view: CycleView) -> None:
    if not isinstance(edit, Edit):
        raise InternalError(f"{edit!r:.60} is no edit of heddle.passes.cycle_view")
    engine = getattr(edit, "engine", None)
    if engine is not None and engine not in view.engines:
        known = ", ".join(view.engines)
        raise InternalError(f"{type(edit).__name__}.engine is {engine!r}; there are {known}")
    for name in ("gain_s", "budget_s"):
        value = getattr(edit, name, 0.0)
        if not isinstance(value, int | float) or math.isnan(value):
            raise InternalError(f"{type(edit).__name__}.{name} must be a number, got {value!r:.40}")
    if not getattr(edit, "budget_s", 1.0) > 0:
        raise InternalError(f"{type(edit).__name__}.budget_s must be above 0")
