"""HeddleRanker: the model of a Heddle server that ranks, as Haystack's ranker."""

from dataclasses import replace
from typing import Any

from haystack import Document, component, default_to_dict
from haystack.utils import Secret

from heddle.adapters.calls import arerank, rerank
from heddle.adapters.haystack.engine_part import EnginePart
from heddle.adapters.values import Ranked, RerankCall
from heddle.core.errors import InputError


@component
class HeddleRanker(EnginePart):
    """Orders documents by how well they answer a query: a model reads them with it.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        top_k: how many documents are kept, the best first; None = all of them.
        api_key: the key for a server by its address; None = that of HEDDLE_API_KEY.
        tenant: whose caches are used.
    """

    def __init__(
        self,
        engine: object,
        *,
        top_k: int | None = None,
        api_key: Secret | None = None,
        tenant: str = "",
    ) -> None:
        EnginePart.__init__(
            self, engine, api_key, tenant
        )  # Haystack makes the class anew: no super()
        self.top_k = _checked(top_k)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, Any]:
        """Return `documents`, the best first, each with its relevance from 0 to 1 as its score.

        Args:
            query: what they are to answer.
            documents: up to 1,000, each with a text.
            top_k: in the place of the component's.

        Raises:
            InputError, ConfigError: it can't be done as it is.
            HeddleError: it failed.
        """
        if not documents:
            return {"documents": []}
        return self._kept(documents, rerank(self.called, _call(query, documents)), top_k)

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, Any]:
        """Return `documents`, as `run` does; a task that is cancelled ends the ranking."""
        if not documents:
            return {"documents": []}
        return self._kept(documents, await arerank(self.called, _call(query, documents)), top_k)

    def to_dict(self) -> dict[str, Any]:
        """Return what a file says of the component.

        Raises:
            ConfigError: its engine is a server of this process.
        """
        return default_to_dict(self, **self.saved(), top_k=self.top_k)

    def _kept(self, documents: list[Document], ranked: Ranked, top_k: int | None) -> dict[str, Any]:
        count = self.top_k if top_k is None else _checked(top_k)
        best = ranked.texts[:count]
        return {"documents": [replace(documents[one.index], score=one.relevance) for one in best]}


def _call(query: str, documents: list[Document]) -> RerankCall:
    for number, document in enumerate(documents):
        if not document.content:
            raise InputError(f"documents.{number} has no text to rank", param="documents")
    return RerankCall(query, [document.content or "" for document in documents])


def _checked(top_k: int | None) -> int | None:
    if top_k is not None and top_k < 1:
        raise InputError(f"top_k must be at least 1, got {top_k}", param="top_k")
    return top_k
