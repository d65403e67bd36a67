"""How a component's slots become reads of keys."""

from heddle.graph.primitive import Part, Read, ShownPart, StandIn
from heddle.lowering.scope import Scope
from heddle.workflow.nodes import GenerationNode, NodeId
from heddle.workflow.template import Slot, Template
from heddle.workflow.workflow import Workflow


def bind(template: Template, node: NodeId, workflow: Workflow, scope: Scope) -> tuple[Part, ...]:
    """Return the template's parts with every slot bound to its newest key.

    A slot that its loop writes only later is empty in the first turn: it is left out.
    """
    parts: list[Part] = []
    for part in template.parts:
        bound = _bound(part, node, workflow, scope) if isinstance(part, Slot) else part
        if bound is not None:
            parts.append(bound)
    return tuple(parts)


def bind_stand_in(node: GenerationNode, workflow: Workflow, scope: Scope) -> StandIn | None:
    """Return what stands in for a generation's text where a needed value is empty."""
    if node.needs is None:
        return None
    text = bind(node.if_empty, node.id, workflow, scope)
    return StandIn(text, _bound(node.needs, node.id, workflow, scope))


def read_slot(slot: str, node: NodeId, workflow: Workflow, scope: Scope) -> Read | None:
    """Return the read of a slot for a node: this turn's item where the node consumes a list."""
    key = scope.key_of(slot)
    if key is None:
        return None
    consumes = node in workflow.list_slots.get(slot, frozenset())
    return Read(key, scope.taken_of(slot) if consumes else None)


def _bound(slot: Slot, node: NodeId, workflow: Workflow, scope: Scope) -> Read | None:
    if slot.span is None:
        return read_slot(slot.name, node, workflow, scope)
    key = scope.key_of(slot.name)
    return None if key is None else Read(key, span=slot.span)


def keys(parts: tuple[ShownPart, ...]) -> tuple[str, ...]:
    """Return the keys that bound parts read, each once."""
    return tuple(dict.fromkeys(p.key for p in parts if isinstance(p, Read)))
