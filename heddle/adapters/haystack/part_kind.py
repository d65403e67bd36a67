"""What a component of a pipeline is, told by its sockets: any maker's retriever has the same."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from haystack.components.builders import ChatPromptBuilder, PromptBuilder

TEXT_SEARCH: Final = frozenset({"query", "filters", "top_k"})
VECTOR_SEARCH: Final = frozenset({"query_embedding", "filters", "top_k"})
DOCUMENTS: Final = frozenset({"documents"})
EMBEDDING: Final = frozenset({"embedding", "meta"})


class PartKind(Enum):
    """The parts of a pipeline that an engine of Heddle's can do."""

    RETRIEVER = "retriever"
    VECTOR_RETRIEVER = "retriever by vector"
    RANKER = "ranker"
    MODEL = "model"
    TEXT_EMBEDDER = "text embedder"
    DOCUMENT_EMBEDDER = "document embedder"
    PROMPT = "prompt"


def kind_of(
    instance: object, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> PartKind | None:
    """Return what a component is; None = something else, such as a joiner or a router.

    Args:
        instance: the component.
        inputs: its input sockets, by name.
        outputs: its output sockets, by name.
    """
    if isinstance(instance, ChatPromptBuilder | PromptBuilder):
        return PartKind.PROMPT
    found = frozenset(outputs)
    if found == {"replies"} and "messages" in inputs:
        return PartKind.MODEL
    if found == EMBEDDING and "text" in inputs:
        return PartKind.TEXT_EMBEDDER
    if found == {"documents", "meta"} and "documents" in inputs:
        return PartKind.DOCUMENT_EMBEDDER
    if found != DOCUMENTS:
        return None
    if "query" in inputs and "documents" in inputs:
        return PartKind.RANKER
    if inputs.keys() >= TEXT_SEARCH:
        return PartKind.RETRIEVER
    return PartKind.VECTOR_RETRIEVER if inputs.keys() >= VECTOR_SEARCH else None
