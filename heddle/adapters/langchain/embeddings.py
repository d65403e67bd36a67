"""Heddle's embedder as LangChain's embeddings."""

from langchain_core.embeddings import Embeddings

from heddle.adapters import calls
from heddle.adapters.langchain.component import Component, place_here
from heddle.adapters.values import EmbedCall


class HeddleEmbeddings(Component, Embeddings):
    """Heddle's embedder; queries and documents get the prompts of the model for them."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        if not texts:
            return []
        return calls.embed(self.heddle, self._passages(texts), place_here()).vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return calls.embed(self.heddle, self._query(text), place_here()).vectors[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        if not texts:
            return []
        return (await calls.aembed(self.heddle, self._passages(texts), place_here())).vectors

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return (await calls.aembed(self.heddle, self._query(text), place_here())).vectors[0]

    def _passages(self, texts: list[str]) -> EmbedCall:
        # Where nothing is said, the engine knows best in which class many texts are embedded.
        given = self.service_class if "priority" in self.model_fields_set else None
        return EmbedCall(texts, "passage", self.deadline_s, given)

    def _query(self, text: str) -> EmbedCall:
        return EmbedCall([text], "query", self.deadline_s, self.service_class)
