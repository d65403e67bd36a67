"""Indexing: Embedding of chunk texts, then Ingestion of their vectors. (Teola Figure 3)"""

from heddle.core.payloads import TextRole
from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import EmbedConfig, IngestConfig, Primitive, Read
from heddle.lowering.scope import Scope, input_key
from heddle.workflow.nodes import IndexingNode
from heddle.workflow.workflow import Workflow


def lower_indexing(
    node: IndexingNode, workflow: Workflow, scope: Scope
) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitives of one batch of chunks, and the key that says it is stored."""
    turn = scope.turn_of(node.id)
    texts = scope.key_of(node.texts) or input_key(node.texts)
    chunk_ids = scope.key_of(node.chunk_ids) or input_key(node.chunk_ids)
    vectors, output = f"{node.id}.vectors@{turn}", f"{node.output}@{turn}"
    embed = Primitive(
        name=f"{node.id}.embedding@{turn}",
        kind=PrimitiveKind.EMBEDDING,
        node=str(node.id),
        reads=(texts,),
        writes=(vectors,),
        config=EmbedConfig((Read(texts),), TextRole.PASSAGE),
    )
    ingest = Primitive(
        name=f"{node.id}.ingestion@{turn}",
        kind=PrimitiveKind.INGESTION,
        node=str(node.id),
        reads=(vectors, chunk_ids),
        writes=(output,),
        config=IngestConfig(vectors, chunk_ids),
    )
    return (embed, ingest), output
