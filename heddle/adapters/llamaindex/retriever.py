"""HeddleRetriever: searches in a Heddle server's corpus, as LlamaIndex's retriever."""

from functools import cached_property

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from heddle.adapters.calls import asearch, search
from heddle.adapters.engine import Engine, engine_of
from heddle.adapters.llamaindex.filters import where_of_filters
from heddle.adapters.llamaindex.nodes import node_of
from heddle.adapters.values import Found, SearchCall
from heddle.workflow.ragraph import DEFAULT_TOPK


class HeddleRetriever(BaseRetriever):
    """Finds passages in the corpus of a Heddle server; it embeds the query itself.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        similarity_top_k: how many passages; fewer where the corpus has fewer.
        filters: metadata that found documents must have: `==` and `in`, joined by `and`.
        hybrid: search by words (BM25) as well as by meaning.
        rerank: have a model read four times as many passages, and keep the best.
        api_key: the key for a server by its address.
        tenant: whose documents are found.
        callback_manager: LlamaIndex's.

    Raises:
        InputError: the filters compare in another way.
    """

    def __init__(
        self,
        engine: object,
        *,
        similarity_top_k: int = DEFAULT_TOPK,
        filters: MetadataFilters | None = None,
        hybrid: bool = False,
        rerank: bool = False,
        api_key: str = "",
        tenant: str = "",
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager)
        self._where = where_of_filters(filters)
        self._engine, self._api_key, self._tenant = engine, api_key, tenant
        self.similarity_top_k = similarity_top_k
        self._hybrid, self._rerank = hybrid, rerank

    @cached_property
    def called(self) -> Engine:
        """The engine.

        Raises:
            ConfigError: it is none, or no address.
        """
        return engine_of(self._engine, api_key=self._api_key, tenant=self._tenant)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(search(self.called, self._call(query_bundle)))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await asearch(self.called, self._call(query_bundle)))

    def _call(self, query_bundle: QueryBundle) -> SearchCall:
        return SearchCall(
            query_bundle.query_str,
            topk=self.similarity_top_k,
            hybrid=self._hybrid,
            rerank=self._rerank,
            where=self._where,
        )


def _nodes(found: Found) -> list[NodeWithScore]:
    return [node_of(passage) for passage in found.passages]
