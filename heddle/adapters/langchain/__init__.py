"""Heddle as LangChain's chat model, embeddings, retriever and reranker.

Raises:
    ImportError: langchain-core isn't installed.
"""

try:
    import langchain_core  # noqa: F401 - whether it is there
except ImportError as missing:
    raise ImportError(
        "heddle.adapters.langchain needs langchain-core: pip install 'heddle[langchain]'"
    ) from missing

from heddle.adapters.langchain.chat import ChatHeddle
from heddle.adapters.langchain.embeddings import HeddleEmbeddings
from heddle.adapters.langchain.reranker import HeddleReranker
from heddle.adapters.langchain.retriever import HeddleRetriever

__all__ = ["ChatHeddle", "HeddleEmbeddings", "HeddleReranker", "HeddleRetriever"]
