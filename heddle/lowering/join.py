"""A join: one Aggregate of texts."""

from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import JoinConfig, Primitive
from heddle.lowering.reads import bind, keys, read_slot
from heddle.lowering.scope import Scope
from heddle.workflow.nodes import JoinNode
from heddle.workflow.workflow import Workflow


def lower_join(
    node: JoinNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitive of one turn of a join, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    reads = (read_slot(slot, node.id, workflow, scope) for slot in node.slots)
    parts = tuple(read for read in reads if read is not None)
    before = bind(node.before, node.id, workflow, scope)
    output = f"{node.output}@{turn}"
    join = Primitive(
        name=f"{node.id}.aggregate@{turn}",
        kind=PrimitiveKind.AGGREGATE,
        node=str(node.id),
        reads=keys((*parts, *before)),
        writes=(output,),
        config=JoinConfig(parts, before, scope.key_of(node.output)),
    )
    return (join,), output
