"""A generation: Prefilling, then Decoding. (Teola Table 1)"""

from heddle.core.primitives import PrimitiveKind
from heddle.core.system_text import SystemText
from heddle.graph.primitive import DecodeConfig, PrefillConfig, Primitive, StandIn
from heddle.lowering.reads import bind, bind_stand_in, keys
from heddle.lowering.scope import Scope
from heddle.workflow.nodes import GenerationNode, Parse
from heddle.workflow.workflow import Workflow


def lower_generation(
    node: GenerationNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitives of one turn of a generation, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    output = f"{node.output}@{turn}"
    parts = (*system_part(node), *bind(node.prompt, node.id, workflow, scope))
    if_empty = bind_stand_in(node, workflow, scope)
    prompt = PrefillConfig(parts, is_fenced=node.fence, if_empty=if_empty)
    decode = DecodeConfig(f"{node.id}.kv@{turn}", node.sampling, node.parse is Parse.LINES)
    return prefill_and_decode(str(node.id), f"@{turn}", prompt, decode, output), output


def system_part(node: GenerationNode) -> tuple[SystemText, ...]:
    """Return the part that a generation's prompt begins with; () where it has no system text."""
    return (SystemText(node.system),) if node.system else ()


def prefill_and_decode(
    node: str, suffix: str, prompt: PrefillConfig, decode: DecodeConfig, output: str
) -> tuple[Primitive, Primitive]:
    """Return the Prefilling of a prompt and the Decoding that continues it into key `output`.

    `suffix` ends their names: the turn, and before it the round where there are rounds.
    """
    written = () if prompt.written is None else (prompt.written,)
    shown = dict.fromkeys((*keys(prompt.parts), *_stand_in_keys(prompt.if_empty)))
    return (
        Primitive(
            name=f"{node}.prefilling{suffix}",
            kind=PrimitiveKind.PREFILLING,
            node=node,
            reads=(*shown, *written),
            writes=(decode.prefill,),
            config=prompt,
        ),
        Primitive(
            name=f"{node}.decoding{suffix}",
            kind=PrimitiveKind.DECODING,
            node=node,
            reads=(decode.prefill, *written),
            writes=(output,),
            config=decode,
        ),
    )


def _stand_in_keys(stand_in: StandIn | None) -> tuple[str, ...]:
    if stand_in is None:
        return ()
    needs = () if stand_in.needs is None else (stand_in.needs,)
    return keys((*stand_in.parts, *needs))
