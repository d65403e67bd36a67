"""What a reader does with the passages of a slot: one Extracting, or one Reranking of them all."""

from typing import Final

from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import ExtractConfig, Primitive, RerankConfig
from heddle.lowering.reads import bind, keys, read_slot
from heddle.lowering.scope import Scope
from heddle.workflow.nodes import ExtractionNode, RankingNode
from heddle.workflow.workflow import Workflow

ALL: Final = 1 << 30


def lower_reading(
    node: ExtractionNode | RankingNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitive of one turn of an extraction or a ranking, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    output = f"{node.output}@{turn}"
    asked = node.question if isinstance(node, ExtractionNode) else node.query
    query = bind(asked, node.id, workflow, scope)
    passages = read_slot(node.passages, node.id, workflow, scope)
    config: ExtractConfig | RerankConfig
    if isinstance(node, ExtractionNode):
        kind, config = PrimitiveKind.EXTRACTING, ExtractConfig(query, passages, node.quotes_max)
    else:
        kind, config = PrimitiveKind.RERANKING, RerankConfig(query, passages, ALL)
    read = Primitive(
        name=f"{node.id}.{kind.value}@{turn}",
        kind=kind,
        node=str(node.id),
        reads=keys(query if passages is None else (*query, passages)),
        writes=(output,),
        config=config,
    )
    return (read,), output
