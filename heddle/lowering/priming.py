"""Priming: Searching for a chunk's neighbours, then Priming of its KV on top of theirs."""

from heddle.core.kv_reuse import PrimedWith
from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import PrimeConfig, Primitive, SearchConfig
from heddle.lowering.scope import Scope, input_key
from heddle.workflow.nodes import PrimingNode


def lower_priming(node: PrimingNode, scope: Scope) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitives of one chunk, and the key that says its KV is stored."""
    turn = scope.turn_of(node.id)
    passage, before, vectors = (
        scope.key_of(slot) or input_key(slot) for slot in (node.passage, node.before, node.vectors)
    )
    hits, output = f"{node.id}.hits@{turn}", f"{node.output}@{turn}"
    near: tuple[str, ...] = ()
    if node.neighbours_max:
        near = (before, hits) if node.primed_with is PrimedWith.PRECEDING else (hits,)
    prime = Primitive(
        name=f"{node.id}.priming@{turn}",
        kind=PrimitiveKind.PRIMING,
        node=str(node.id),
        reads=(passage, *near),
        writes=(output,),
        config=PrimeConfig(node.prefix, passage, near, node.neighbours_max, node.primed_with),
    )
    if not near:
        return (prime,), output
    search = Primitive(
        name=f"{node.id}.searching@{turn}",
        kind=PrimitiveKind.SEARCHING,
        node=str(node.id),
        reads=(vectors,),
        writes=(hits,),
        config=SearchConfig(vectors, node.topk, None),
    )
    return (search, prime), output
