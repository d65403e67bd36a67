"""HeddleRetriever: searches in a Heddle server's corpus, as Haystack's retriever."""

from typing import Any

from haystack import Document, component, default_to_dict
from haystack.utils import Secret

from heddle.adapters.calls import asearch, search
from heddle.adapters.haystack.documents import document_of
from heddle.adapters.haystack.engine_part import EnginePart
from heddle.adapters.haystack.filters import where_of_filters
from heddle.adapters.values import Found, SearchCall
from heddle.workflow.ragraph import DEFAULT_TOPK


@component
class HeddleRetriever(EnginePart):
    """Finds documents in the corpus of a Heddle server; it embeds the query itself.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        filters: metadata that found documents must have; those of a run take their place.
        top_k: how many documents; fewer where the corpus has fewer.
        hybrid: search by words (BM25) as well as by meaning.
        rerank: have a model read four times as many passages, and keep the best.
        api_key: the key for a server by its address; None = that of HEDDLE_API_KEY.
        tenant: whose documents are found.
    """

    def __init__(
        self,
        engine: object,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = DEFAULT_TOPK,
        hybrid: bool = False,
        rerank: bool = False,
        api_key: Secret | None = None,
        tenant: str = "",
    ) -> None:
        EnginePart.__init__(
            self, engine, api_key, tenant
        )  # Haystack makes the class anew: no super()
        where_of_filters(filters)
        self.filters = filters
        self.top_k = top_k
        self.hybrid = hybrid
        self.rerank = rerank

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """Find `documents`, the best first.

        Args:
            query: what to search for.
            filters: comparisons with `==` and `in`, joined by AND; in the place of the component's.
            top_k: in the place of the component's.

        Raises:
            InputError, ConfigError: it can't be done as it is.
            HeddleError: it failed.
        """
        return _documents(search(self.called, self._call(query, filters, top_k)))

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """Find `documents`, as `run` does; a task that is cancelled ends the search."""
        return _documents(await asearch(self.called, self._call(query, filters, top_k)))

    def to_dict(self) -> dict[str, Any]:
        """Return what a file says of the component.

        Raises:
            ConfigError: its engine is a server of this process.
        """
        return default_to_dict(
            self,
            **self.saved(),
            filters=self.filters,
            top_k=self.top_k,
            hybrid=self.hybrid,
            rerank=self.rerank,
        )

    def _call(self, query: str, filters: dict[str, Any] | None, top_k: int | None) -> SearchCall:
        return SearchCall(
            query,
            topk=self.top_k if top_k is None else top_k,
            hybrid=self.hybrid,
            rerank=self.rerank,
            where=where_of_filters(self.filters if filters is None else filters),
        )


def _documents(found: Found) -> dict[str, Any]:
    return {"documents": [document_of(passage) for passage in found.passages]}
