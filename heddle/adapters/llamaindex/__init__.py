"""LlamaIndex: Heddle's LLM, embedding, retriever and reranker for it."""

from heddle.adapters.llamaindex.call_refused import CallRefused
from heddle.adapters.llamaindex.embedding import HeddleEmbedding
from heddle.adapters.llamaindex.llm import HeddleLLM
from heddle.adapters.llamaindex.reranker import HeddleReranker
from heddle.adapters.llamaindex.retriever import HeddleRetriever

__all__ = ["CallRefused", "HeddleEmbedding", "HeddleLLM", "HeddleReranker", "HeddleRetriever"]
