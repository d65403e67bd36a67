"""How a component's slots become reads of keys."""

from heddle.graph.primitive import Part, Read, ShownPart
from heddle.lowering.scope import Scope
from heddle.workflow.nodes import NodeId
from heddle.workflow.template import Slot, Template
from heddle.workflow.workflow import Workflow


def bind(template: Template, node: NodeId, workflow: Workflow, scope: Scope) -> tuple[Part, ...]:
    """Return the template's parts with every slot bound to its newest key.

    A slot that its loop writes only later is empty in the first turn: it is left out.
    """
    parts: list[Part] = []
    for part in template.parts:
        bound = read_slot(part.name, node, workflow, scope) if isinstance(part, Slot) else part
        if bound is not None:
            parts.append(bound)
    return tuple(parts)


def read_slot(slot: str, node: NodeId, workflow: Workflow, scope: Scope) -> Read | None:
    """Return the read of a slot for a node: this turn's item where the node consumes a list."""
    key = scope.key_of(slot)
    if key is None:
        return None
    consumes = node in workflow.list_slots.get(slot, frozenset())
    return Read(key, scope.taken_of(slot) if consumes else None)


def keys(parts: tuple[ShownPart, ...]) -> tuple[str, ...]:
    """Return the keys that bound parts read, each once."""
    return tuple(dict.fromkeys(p.key for p in parts if isinstance(p, Read)))
