"""A retrieval: Embedding, Searching, with `rerank` Reranking, with `collect` an Aggregate."""

from heddle.core.payloads import TextRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.search_scope import Where
from heddle.graph.primitive import (
    CollectConfig,
    EmbedConfig,
    OwnPassages,
    Part,
    Primitive,
    Read,
    RerankConfig,
    SearchConfig,
)
from heddle.lowering.documents import own_passages
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
    goes_on = node.collect or node.rerank is not None
    hits = f"{node.id}.hits@{turn}" if goes_on else output
    found = hits
    query = bind(node.query, node.id, workflow, scope)
    primitives: tuple[Primitive, ...] = embed_and_search(
        str(node.id),
        f"@{turn}",
        query,
        node.topk,
        node.nprobe,
        node.topm,
        hits,
        where=node.where,
        hybrid=node.hybrid,
        each=node.collect,
        within=own_passages(node, scope),
    )
    if node.rerank is not None:
        found = f"{node.id}.ranked@{turn}" if node.collect else output
        if node.rerank_by is not None:
            query = bind(node.rerank_by, node.id, workflow, scope)
        rerank = Primitive(
            name=f"{node.id}.reranking@{turn}",
            kind=PrimitiveKind.RERANKING,
            node=str(node.id),
            reads=(hits, *keys(query)),
            writes=(found,),
            config=RerankConfig(query, Read(hits), node.rerank),
        )
        primitives = (*primitives, rerank)
    if not node.collect:
        return primitives, output
    earlier = scope.key_of(node.output)
    reads = (*(() if earlier is None else (earlier,)), found)
    collect = Primitive(
        name=f"{node.id}.aggregate@{turn}",
        kind=PrimitiveKind.AGGREGATE,
        node=str(node.id),
        reads=reads,
        writes=(output,),
        config=CollectConfig(tuple(Read(key) for key in reads)),
    )
    return (*primitives, collect), output


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
    each: bool = False,
    within: OwnPassages | None = None,
) -> tuple[Primitive, Primitive]:
    """Return the Embedding of a query and the Searching for it into key `hits`.

    `where` and `hybrid` are the retrieval node's. `suffix` ends the primitives' names: the turn,
    and before it the round where there are rounds. `while_decoding` says that a generation waits
    between two of its tokens, `each` that the passages of all queries are wanted. `within` are the
    request's own passages, for a Matching of them in the place of the Searching.
    """
    vectors = f"{node}.vectors{suffix}"
    words = query if hybrid else ()
    kind = PrimitiveKind.SEARCHING if within is None else PrimitiveKind.MATCHING
    own = () if within is None else (within.passages, within.vectors)
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
            name=f"{node}.{kind.value}{suffix}",
            kind=kind,
            node=node,
            reads=(vectors, *keys(words), *own),
            writes=(hits,),
            config=SearchConfig(
                vectors, topk, nprobe, while_decoding, where, words, topm, each, within
            ),
        ),
    )
