"""HeddleReranker: the model of a Heddle server that ranks, as LlamaIndex's postprocessor."""

from llama_index.core.bridge.pydantic import Field
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from heddle.adapters.calls import arerank, rerank
from heddle.adapters.llamaindex.engine_fields import EngineFields
from heddle.adapters.values import Ranked, RerankCall
from heddle.core.errors import InputError


class HeddleReranker(EngineFields, BaseNodePostprocessor):
    """Orders nodes by how well they answer the query: a model reads them with it.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        top_n: how many are kept, the best first; None = all of them.
    """

    top_n: int | None = Field(default=None, ge=1, description="how many nodes are kept")

    @classmethod
    def class_name(cls) -> str:
        """Return the name that a file calls it by."""
        return "HeddleReranker"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        return self._best(nodes, rerank(self.called, _call(nodes, query_bundle)))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        return self._best(nodes, await arerank(self.called, _call(nodes, query_bundle)))

    def _best(self, nodes: list[NodeWithScore], ranked: Ranked) -> list[NodeWithScore]:
        best = ranked.texts[: self.top_n]
        return [NodeWithScore(node=nodes[one.index].node, score=one.relevance) for one in best]


def _call(nodes: list[NodeWithScore], query_bundle: QueryBundle | None) -> RerankCall:
    if query_bundle is None:
        raise InputError("query_str: nodes are ranked by a query: give one", param="query_str")
    texts = [one.node.get_content(metadata_mode=MetadataMode.EMBED) for one in nodes]
    return RerankCall(query_bundle.query_str, texts)
