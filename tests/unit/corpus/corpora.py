"""Small corpora and vectors for the tests here."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore

DIMS = 4
STAMP = EmbedderStamp("tiny", DIMS, "float32")


def document(document_id: str, text: str = "some words", source: str = "") -> Document:
    return Document(document_id, f"Title {document_id}", text, source)


def chunks(*texts: str) -> tuple[TextChunk, ...]:
    return tuple(TextChunk(position, "a title", text) for position, text in enumerate(texts))


def vector_of(chunk_id: int) -> NDArray[np.float32]:
    return np.random.default_rng(chunk_id).standard_normal(DIMS).astype(np.float32)


def vectors_of(chunk_ids: Sequence[int]) -> NDArray[np.float32]:
    return np.array([vector_of(chunk_id) for chunk_id in chunk_ids], np.float32).reshape(-1, DIMS)


def put(store: CorpusStore, document_id: str, *texts: str) -> None:
    store.documents.put_document(document(document_id, " ".join(texts)), chunks(*texts))


def embed(store: CorpusStore, limit: int = 10_000) -> int:
    ids = [chunk.chunk_id for chunk in store.documents.pending_chunks(limit)]
    return store.store_vectors(ids, vectors_of(ids))


def texts_searchable(store: CorpusStore) -> list[str]:
    """The texts that a search sees, by way of vectors and passages."""
    ids = [int(chunk_id) for batch in store.vectors() for chunk_id in batch.chunk_ids]
    return [passage.text for passage in store.passages(sorted(ids))]
