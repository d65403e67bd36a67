"""Haystack's components over FAISS in the same process: one embeds queries, one searches."""

from typing import Any

import numpy as np
from haystack import Document, component

from benchmarks.adapting.passages import Passages


@component
class LocalTextEmbedder:
    """The corpus's embedder in this process, by sentence-transformers.

    Args:
        passages: holds it.
    """

    def __init__(self, passages: Passages) -> None:
        self._passages = passages

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    def run(self, text: str) -> dict[str, Any]:
        """Return the vector of a query."""
        return {"embedding": self._passages.embed([text])[0].tolist(), "meta": {}}


@component
class FaissRetriever:
    """An index that is there, and the passages of its corpus.

    Args:
        passages: holds them.
        top_k: how many documents.
    """

    def __init__(self, passages: Passages, top_k: int) -> None:
        self._passages = passages
        self.top_k = top_k

    @component.output_types(documents=list[Document])
    def run(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, Any]:
        """Return the nearest documents; there is nothing to filter by."""
        found = self._passages.find(np.array(query_embedding, np.float32), top_k or self.top_k)
        documents = [
            Document(id=str(one.chunk_id), content=one.text, meta={"title": one.title})
            for one in found
        ]
        return {"documents": documents}
