"""A request's own documents: one Embedding of their chunks, which stays in its store. (ADR 34)

Teola's Ingestion is the write of the vectors into the request's object store: no engine holds them.
"""

from heddle.core.errors import WorkflowError
from heddle.core.payloads import TextRole
from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import EmbedConfig, OwnPassages, Primitive, Read
from heddle.lowering.scope import Scope, input_key
from heddle.workflow.nodes import DocumentsNode, RetrievalNode
from heddle.workflow.template import DOCUMENTS


def lower_documents(node: DocumentsNode, scope: Scope) -> tuple[tuple[Primitive, ...], str]:
    """Return the primitive of one turn of an indexing, and the key its slot gets."""
    turn = scope.turn_of(node.id)
    chunks, output = _chunks(scope), f"{node.output}@{turn}"
    embed = Primitive(
        name=f"{node.id}.embedding@{turn}",
        kind=PrimitiveKind.EMBEDDING,
        node=str(node.id),
        reads=(chunks,),
        writes=(output,),
        config=EmbedConfig((Read(chunks),), TextRole.PASSAGE),
    )
    return (embed,), output


def own_passages(node: RetrievalNode, scope: Scope) -> OwnPassages | None:
    """Return what a retrieval searches instead of the corpus; None = it searches the corpus.

    Raises:
        WorkflowError: a callable edge has led past the indexing.
    """
    if node.within is None:
        return None
    vectors = scope.key_of(node.within)
    if vectors is None:
        raise WorkflowError(
            f"node {node.id!r} searches within {node.within!r}, which nothing has written by now: "
            "let every way to it lead through its add_documents node"
        )
    return OwnPassages(_chunks(scope), vectors)


def _chunks(scope: Scope) -> str:
    return scope.key_of(DOCUMENTS) or input_key(DOCUMENTS)
