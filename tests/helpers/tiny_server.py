"""The small server of the benchmarks, under the name that tests use."""

from benchmarks.support.tiny_server import (
    CONTEXT_TOKENS_MAX,
    DOCUMENTS,
    KEEPERS,
    index_documents,
    write_documents,
    write_model,
)

__all__ = [
    "CONTEXT_TOKENS_MAX",
    "DOCUMENTS",
    "KEEPERS",
    "index_documents",
    "write_documents",
    "write_model",
]
