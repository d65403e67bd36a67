"""An extraction: one Extracting over the passages of a slot."""

from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import ExtractConfig, Primitive, Read
from heddle.lowering.reads import bind, keys, read_slot
from heddle.lowering.scope import Scope, input_key
from heddle.workflow.nodes import ExtractionNode
from heddle.workflow.workflow import Workflow


def lower_extraction(
    node: ExtractionNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitive of one turn of an extraction, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    output = f"{node.output}@{turn}"
    question = bind(node.question, node.id, workflow, scope)
    passages = read_slot(node.passages, node.id, workflow, scope) or Read(input_key(node.passages))
    extract = Primitive(
        name=f"{node.id}.extracting@{turn}",
        kind=PrimitiveKind.EXTRACTING,
        node=str(node.id),
        reads=(*keys(question), passages.key),
        writes=(output,),
        config=ExtractConfig(question, passages, node.quotes_max),
    )
    return (extract,), output
