"""LangChain's vector store over FAISS in the same process, as its community package has one."""

from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from benchmarks.adapting.passages import Passages
from benchmarks.adapting.setting import Setting


class LocalEmbeddings(Embeddings):
    """The corpus's embedder in this process, by sentence-transformers."""

    def __init__(self, passages: Passages) -> None:
        self._passages = passages

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        return self._passages.embed(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self.embed_documents([text])[0]


class FaissVectors(VectorStore):
    """An index that is there, and the passages of its corpus."""

    def __init__(self, setting: Setting) -> None:
        self._passages = Passages(setting)
        self._embeddings = LocalEmbeddings(self._passages)

    @property
    def embeddings(self) -> Embeddings:
        """What embeds its queries."""
        return self._embeddings

    def similarity_search(self, query: str, k: int = 4, **_: Any) -> list[Document]:
        """Return the nearest documents."""
        vector = np.array(self._embeddings.embed_query(query), np.float32)
        return [
            Document(one.text, id=str(one.chunk_id), metadata={"title": one.title})
            for one in self._passages.find(vector, k)
        ]

    @classmethod
    def from_texts(cls, *_: Any, **__: Any) -> "FaissVectors":
        """Refuse: the index is made beforehand."""
        raise NotImplementedError("the index is made beforehand")
