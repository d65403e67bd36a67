"""A retrieval: Embedding, Searching, and with `collect` an Aggregate over the turns."""

from heddle.core.payloads import TextRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.search_scope import Where
from heddle.graph.primitive import (
    CollectConfig,
    EmbedConfig,
    Part,
    Primitive,
    Read,
    SearchConfig,
)
from heddle.lowering.reads import bind, keys
from heddle.lowering.scope import Scope
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.workflow import Workflow


def lower_retrieval(
    node: RetrievalNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitives of one turn of a retrieval, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    output = f"{node.output}@{turn}"
    hits = f"{node.id}.hits@{turn}" if node.collect else output
    query = bind(node.query, node.id, workflow, scope)
    pair = embed_and_search(
        str(node.id),
        f"@{turn}",
        query,
        node.topk,
        node.nprobe,
        node.topm,
        hits,
        where=node.where,
        hybrid=node.hybrid,
    )
    if not node.collect:
        return pair, output
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
    return (*pair, collect), output


def embed_and_search(
    node: str,
    suffix: str,
    query: tuple[Part, ...],
    topk: int,
    nprobe: int | None,
    topm: int | None,
    hits: str,
    *,
    where: Where,
    hybrid: bool,
    while_decoding: bool = False,
) -> tuple[Primitive, Primitive]:
    """Return the Embedding of a query and the Searching for it into key `hits`.

    `where` and `hybrid` are the retrieval node's. `suffix` ends the primitives' names: the turn,
    and before it the round where there are rounds. `while_decoding` says that a generation waits
    between two of its tokens.
    """
    vectors = f"{node}.vectors{suffix}"
    words = query if hybrid else ()
    return (
        Primitive(
            name=f"{node}.embedding{suffix}",
            kind=PrimitiveKind.EMBEDDING,
            node=node,
            reads=keys(query),
            writes=(vectors,),
            config=EmbedConfig(query, TextRole.QUERY),
        ),
        Primitive(
            name=f"{node}.searching{suffix}",
            kind=PrimitiveKind.SEARCHING,
            node=node,
            reads=(vectors, *keys(words)),
            writes=(hits,),
            config=SearchConfig(vectors, topk, nprobe, while_decoding, where, words, topm),
        ),
    )
