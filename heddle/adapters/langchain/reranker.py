"""Heddle's model that ranks as LangChain's compressor of documents."""

from collections.abc import Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from pydantic import Field

from heddle.adapters import calls
from heddle.adapters.langchain.component import Component, place_here
from heddle.adapters.values import Ranked, RerankCall


class HeddleReranker(Component, BaseDocumentCompressor):
    """Keeps the documents that answer a query best; each gets its `relevance_score`.

    Args:
        top_n: how many are kept; None = all, in their new order.
    """

    top_n: int | None = Field(default=3, ge=1)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the best documents, the best first."""
        if not documents:
            return []
        ranked = calls.rerank(self.heddle, self._call(documents, query), place_here())
        return self._best(documents, ranked)

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the best documents, the best first."""
        if not documents:
            return []
        ranked = await calls.arerank(self.heddle, self._call(documents, query), place_here())
        return self._best(documents, ranked)

    def _call(self, documents: Sequence[Document], query: str) -> RerankCall:
        texts = [document.page_content for document in documents]
        return RerankCall(query, texts, self.deadline_s, self.service_class)

    def _best(self, documents: Sequence[Document], ranked: Ranked) -> list[Document]:
        best = ranked.texts if self.top_n is None else ranked.texts[: self.top_n]
        return [
            documents[one.index].model_copy(
                update={
                    "metadata": {
                        **documents[one.index].metadata,
                        "relevance_score": one.relevance,
                    }
                }
            )
            for one in best
        ]
