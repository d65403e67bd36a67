"""A tool: one call of a user's function."""

from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import Part, Primitive, ToolConfig
from heddle.lowering.reads import keys, read_slot
from heddle.lowering.scope import Scope
from heddle.workflow.nodes import ToolNode
from heddle.workflow.workflow import Workflow


def lower_tool(
    node: ToolNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitive of one turn of a tool, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    arguments: tuple[Part, ...] = tuple(
        read_slot(slot, node.id, workflow, scope) or "" for slot in node.arguments
    )
    output = f"{node.output}@{turn}"
    call = Primitive(
        name=f"{node.id}.tool@{turn}",
        kind=PrimitiveKind.TOOL,
        node=str(node.id),
        reads=keys(arguments),
        writes=(output,),
        config=ToolConfig(node.function, arguments, node.timeout_s, node.batch_max),
    )
    return (call,), output
