"""Checks the edits of a cycle pass against the wavefront that it saw, before any takes effect."""

import math
from collections.abc import Mapping, Sequence

from heddle.core.errors import InternalError
from heddle.core.payloads import AskPayload
from heddle.passes.cycle_view import (
    AddEdge,
    CycleView,
    Edit,
    Key,
    Prefetch,
    Ready,
    Reorder,
    Replace,
    SetBudget,
    Speculate,
    SpeculateDecode,
)


def check_edits(view: CycleView, found: object, before: Sequence[Edit] = ()) -> tuple[Edit, ...]:
    """Return the edits that a pass has returned, once all of them are found to be right.

    Args:
        view: what the pass saw.
        found: the value that it returned.
        before: the edits of other passes in this cycle, which are checked already.

    Raises:
        InternalError: one is no edit, names a thing that is gone, or changes a forbidden one. None
            of them may take effect then.
    """
    if not isinstance(found, Sequence):
        raise InternalError(f"it returned {type(found).__name__}: return a tuple of edits")
    waiting = {ready.key: ready for ready in view.wavefront}
    # Consumers of new edges can't be producers any more.
    held: set[Key] = {(e.request_id, e.consumer) for e in before if isinstance(e, AddEdge)}
    for edit in found:
        _check_edit(view, waiting, held, edit)
    return tuple(found)


def _check_edit(
    view: CycleView, waiting: Mapping[Key, Ready], held: set[Key], edit: object
) -> None:
    if not isinstance(edit, Edit):
        raise InternalError(f"{edit!r:.60} is no edit of heddle.passes.cycle_view")
    _check_number(edit, "gain_s", edit.gain_s)
    if not math.isfinite(edit.gain_s):
        raise InternalError(f"{edit!r} predicts no finite gain_s")
    match edit:
        case SetBudget(engine=engine, budget_s=budget_s):
            _check_engine(view, engine)
            _check_number(edit, "budget_s", budget_s)
            if not budget_s > 0:
                raise InternalError(f"SetBudget.budget_s must be above 0, got {budget_s}")
        case Reorder():
            _check_engine(view, edit.engine)
            _check_order(waiting, edit)
        case AddEdge():
            _check_edge(waiting, held, edit)
        case Replace():
            _check_replacement(_untouched(waiting, (edit.request_id, edit.primitive)), edit)
        case Speculate(provisional=provisional) | SpeculateDecode(provisional=provisional):
            if provisional not in view.provisional:
                raise InternalError(f"{provisional!r} is not offered")
        case Prefetch(provisional=provisional):
            if provisional not in view.stored:
                raise InternalError(f"{provisional!r} has no stored KV that could be read")


def _check_number(edit: Edit, name: str, value: object) -> None:
    if not isinstance(value, int | float) or math.isnan(value):
        raise InternalError(f"{type(edit).__name__}.{name} must be a number, got {value!r:.40}")


def _check_engine(view: CycleView, engine: str) -> None:
    if engine not in view.engines:
        raise InternalError(f"there is no engine {engine!r}; known: {', '.join(view.engines)}")


def _check_order(waiting: Mapping[Key, Ready], edit: Reorder) -> None:
    for key in edit.order:
        if key not in waiting or waiting[key].engine != edit.engine:
            raise InternalError(f"{key[1]!r} of request {key[0]} doesn't wait for {edit.engine}")
    if len(set(edit.order)) < len(edit.order):
        raise InternalError("an order names a primitive twice")


def _check_edge(waiting: Mapping[Key, Ready], held: set[Key], edit: AddEdge) -> None:
    """Check an edge, and note its consumer.

    What waits for an engine waits for no other primitive, so only new edges could close a cycle.
    """
    producer, consumer = (edit.request_id, edit.producer), (edit.request_id, edit.consumer)
    for key in (producer, consumer):
        if isinstance(_untouched(waiting, key).payload, AskPayload):
            raise InternalError(f"{key[1]!r} runs a question ahead, and its prompt may end it")
    if producer == consumer or producer in held:
        raise InternalError(f"{edit.producer!r} would wait for itself")
    held.add(consumer)


def _check_replacement(ready: Ready, edit: Replace) -> None:
    if not ready.may_approximate:
        raise InternalError(
            f"request {edit.request_id} wants exact answers: its payloads stay as they are"
        )
    old, new = ready.payload, edit.payload
    if type(old) is not type(new) or old.rows != new.rows:
        raise InternalError(
            f"{edit.primitive!r} takes a {type(old).__name__} of {old.rows} rows, "
            f"got a {type(new).__name__} of {new.rows}"
        )


def _untouched(waiting: Mapping[Key, Ready], key: Key) -> Ready:
    ready = waiting.get(key)
    if ready is None:
        raise InternalError(f"{key[1]!r} of request {key[0]} waits for no engine")
    if not ready.is_untouched:
        raise InternalError(f"{key[1]!r} of request {key[0]} was sent in part")
    return ready
