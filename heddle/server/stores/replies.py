"""Files, vector stores and what is found in them, as OpenAI's API writes them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TypeVar

from heddle.core.passages import Passage
from heddle.corpus.vector_stores.paging import Page
from heddle.corpus.vector_stores.records import (
    AttachedFile,
    FileBatch,
    FileCounts,
    Upload,
    VectorStore,
)
from heddle.server.wire import Json

T = TypeVar("T")


def upload_json(upload: Upload) -> Json:
    """Return a file."""
    return {
        "id": upload.id,
        "object": "file",
        "bytes": upload.bytes,
        "created_at": upload.created_s,
        "filename": upload.name,
        "purpose": upload.purpose,
        "status": "processed",
        "expires_at": None,
    }


def store_json(store: VectorStore) -> Json:
    """Return a vector store."""
    return {
        "id": store.id,
        "object": "vector_store",
        "created_at": store.created_s,
        "name": store.name,
        "usage_bytes": store.bytes,
        "file_counts": counts_json(store.counts),
        "status": "in_progress" if store.counts.in_progress else "completed",
        "expires_after": None,
        "expires_at": None,
        "last_active_at": store.changed_s,
        "metadata": dict(store.metadata),
    }


def file_json(file: AttachedFile) -> Json:
    """Return a file in a vector store."""
    error = {"code": file.failure_kind, "message": file.failure} if file.failure_kind else None
    return {
        "id": file.file_id,
        "object": "vector_store.file",
        "created_at": file.created_s,
        "vector_store_id": file.store_id,
        "status": file.state.value,
        "usage_bytes": file.bytes,
        "last_error": error,
        "attributes": dict(file.attributes),
        "chunking_strategy": {"type": "other"},
    }


def batch_json(batch: FileBatch) -> Json:
    """Return a batch of files."""
    status = "in_progress" if batch.counts.in_progress else "completed"
    return {
        "id": batch.id,
        "object": "vector_store.files_batch",
        "created_at": batch.created_s,
        "vector_store_id": batch.store_id,
        "status": "cancelled" if batch.is_cancelled else status,
        "file_counts": counts_json(batch.counts),
    }


def counts_json(counts: FileCounts) -> Json:
    """Return the counts of a store or a batch."""
    return {**asdict(counts), "total": counts.total}


def page_json(page: Page[T], write: Callable[[T], Json]) -> Json:
    """Return a part of a list."""
    data = [write(row) for row in page.rows]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": page.has_more,
    }


def result_json(passage: Passage, file: AttachedFile, score: float) -> Json:
    """Return a passage that was found in a file; `place` is Heddle's own."""
    return {
        "file_id": file.file_id,
        "filename": file.name,
        "score": score,
        "attributes": dict(file.attributes),
        "content": [{"type": "text", "text": passage.text}],
        "place": asdict(passage.place),
    }


def content_json(texts: Iterable[str]) -> Json:
    """Return what the parsers read in a file of a vector store, chunk by chunk."""
    return {
        "object": "vector_store.file_content.page",
        "data": [{"type": "text", "text": text} for text in texts],
        "has_more": False,
        "next_page": None,
    }


def results_json(queries: Sequence[str], results: Sequence[Json]) -> Json:
    """Return what a search has found."""
    return {
        "object": "vector_store.search_results.page",
        "search_query": list(queries),
        "data": list(results),
        "has_more": False,
        "next_page": None,
    }


def deleted_json(row_id: str, kind: str) -> Json:
    """Return that something is deleted; `kind` names its type, such as "file"."""
    return {"id": row_id, "object": kind, "deleted": True}
