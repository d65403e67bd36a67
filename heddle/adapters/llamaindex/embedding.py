"""HeddleEmbedding: the embedder of a Heddle server as LlamaIndex's."""

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding

from heddle.adapters.calls import aembed, embed
from heddle.adapters.llamaindex.engine_fields import EngineFields
from heddle.adapters.values import EmbedCall
from heddle.core.tasks import Priority


class HeddleEmbedding(EngineFields, BaseEmbedding):
    """Embeds queries and texts; each get the model's own prompt, and texts wait for queries.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
    """

    model_name: str = "heddle"

    @classmethod
    def class_name(cls) -> str:
        """Return the name that a file calls it by."""
        return "HeddleEmbedding"

    def _get_query_embedding(self, query: str) -> Embedding:
        return embed(self.called, _query(query)).vectors[0]

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return (await aembed(self.called, _query(query))).vectors[0]

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aget_text_embeddings([text]))[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return embed(self.called, EmbedCall(texts, role="passage")).vectors

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return (await aembed(self.called, EmbedCall(texts, role="passage"))).vectors


def _query(query: str) -> EmbedCall:
    return EmbedCall([query], role="query", priority=Priority.NORMAL)
