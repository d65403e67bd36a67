"""A generation: Prefilling, then Decoding. (Teola Table 1)"""

from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import DecodeConfig, PrefillConfig, Primitive
from heddle.lowering.reads import bind, keys
from heddle.lowering.scope import Scope
from heddle.workflow.nodes import GenerationNode, Parse
from heddle.workflow.workflow import Workflow


def lower_generation(
    node: GenerationNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitives of one turn of a generation, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    parts = bind(node.prompt, node.id, workflow, scope)
    kv, output = f"{node.id}.kv@{turn}", f"{node.output}@{turn}"
    prefill = Primitive(
        name=f"{node.id}.prefilling@{turn}",
        kind=PrimitiveKind.PREFILLING,
        node=str(node.id),
        reads=keys(parts),
        writes=(kv,),
        config=PrefillConfig(parts),
    )
    decode = Primitive(
        name=f"{node.id}.decoding@{turn}",
        kind=PrimitiveKind.DECODING,
        node=str(node.id),
        reads=(kv,),
        writes=(output,),
        config=DecodeConfig(kv, node.sampling, node.parse is Parse.LINES),
    )
    return (prefill, decode), output
