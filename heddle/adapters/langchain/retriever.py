"""Heddle's search as a retriever of LangChain."""

from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from heddle.adapters import calls
from heddle.adapters.langchain.component import Component, place_here
from heddle.adapters.langchain.documents import document_of
from heddle.adapters.values import SearchCall
from heddle.core.errors import InputError
from heddle.workflow.ragraph import DEFAULT_TOPK, TOPK_MAX


class HeddleRetriever(Component, BaseRetriever, extra="forbid"):
    """Searches the server's corpus.

    Args:
        k: passages of each search, at most; a call may say another number.
        hybrid: search by words (BM25) as well as by meaning.
        rerank: have a model read four times as many passages, and keep the best.
        where: metadata that found documents must have; a call may give its own as `filter`
            (None = this one; {} = none).
    """

    k: int = Field(default=DEFAULT_TOPK, ge=1, le=TOPK_MAX)
    hybrid: bool = False
    rerank: bool = False
    where: dict[str, Any] | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        found = calls.search(self.heddle, self._call(query, kwargs), place_here())
        return [document_of(passage) for passage in found.passages]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        found = await calls.asearch(self.heddle, self._call(query, kwargs), place_here())
        return [document_of(passage) for passage in found.passages]

    def _call(self, query: str, given: dict[str, Any]) -> SearchCall:
        unknown = sorted(set(given) - {"k", "filter"})
        if unknown:
            raise InputError(f"HeddleRetriever takes k and filter, got {unknown[0]!r}")
        return SearchCall(
            query,
            topk=given.get("k", self.k),
            hybrid=self.hybrid,
            rerank=self.rerank,
            where=self.where if given.get("filter") is None else given["filter"],
            deadline_s=self.deadline_s,
            priority=self.service_class,
        )
