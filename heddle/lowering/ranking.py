"""A ranking: one Reranking of the passages of a slot, all of which are kept."""

from typing import Final

from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import Primitive, Read, RerankConfig
from heddle.lowering.reads import bind, keys, read_slot
from heddle.lowering.scope import Scope, input_key
from heddle.workflow.nodes import RankingNode
from heddle.workflow.workflow import Workflow

ALL: Final = 1 << 30


def lower_ranking(
    node: RankingNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitive of one turn of a ranking, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    output = f"{node.output}@{turn}"
    query = bind(node.query, node.id, workflow, scope)
    passages = read_slot(node.passages, node.id, workflow, scope) or Read(input_key(node.passages))
    rank = Primitive(
        name=f"{node.id}.reranking@{turn}",
        kind=PrimitiveKind.RERANKING,
        node=str(node.id),
        reads=(*keys(query), passages.key),
        writes=(output,),
        config=RerankConfig(query, passages, ALL),
    )
    return (rank,), output
