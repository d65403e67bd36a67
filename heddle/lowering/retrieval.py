"""A retrieval: Embedding, Searching, and with `collect` an Aggregate over the turns."""

from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import CollectConfig, EmbedConfig, Primitive, Read, SearchConfig
from heddle.lowering.reads import bind, keys
from heddle.lowering.scope import Scope
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.workflow import Workflow


def lower_retrieval(
    node: RetrievalNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitives of one turn of a retrieval, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    parts = bind(node.query, node.id, workflow, scope)
    vectors, output = f"{node.id}.vectors@{turn}", f"{node.output}@{turn}"
    hits = f"{node.id}.hits@{turn}" if node.collect else output
    embed = Primitive(
        name=f"{node.id}.embedding@{turn}",
        kind=PrimitiveKind.EMBEDDING,
        node=str(node.id),
        reads=keys(parts),
        writes=(vectors,),
        config=EmbedConfig(parts),
    )
    search = Primitive(
        name=f"{node.id}.searching@{turn}",
        kind=PrimitiveKind.SEARCHING,
        node=str(node.id),
        reads=(vectors,),
        writes=(hits,),
        config=SearchConfig(vectors, node.topk, node.nprobe),
    )
    if not node.collect:
        return (embed, search), output
    earlier = scope.key_of(node.output)
    reads = (*(() if earlier is None else (earlier,)), hits)
    collect = Primitive(
        name=f"{node.id}.aggregate@{turn}",
        kind=PrimitiveKind.AGGREGATE,
        node=str(node.id),
        reads=reads,
        writes=(output,),
        config=CollectConfig(tuple(Read(key) for key in reads)),
    )
    return (embed, search, collect), output
