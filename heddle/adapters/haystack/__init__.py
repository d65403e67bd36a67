"""Haystack: Heddle's components for its pipelines."""

from haystack.core.serialization import allow_deserialization_module

from heddle.adapters.haystack.chat_generator import HeddleChatGenerator
from heddle.adapters.haystack.embedders import HeddleDocumentEmbedder, HeddleTextEmbedder
from heddle.adapters.haystack.ranker import HeddleRanker
from heddle.adapters.haystack.retriever import HeddleRetriever

__all__ = [
    "HeddleChatGenerator",
    "HeddleDocumentEmbedder",
    "HeddleRanker",
    "HeddleRetriever",
    "HeddleTextEmbedder",
]

# A saved pipeline names its components by module; who imports them wants them to be loaded.
allow_deserialization_module("heddle.adapters.haystack")
