"""Single documents of a corpus, put and deleted while it is served."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from heddle.app.indexing.chunk_embedding import BATCH_ROWS, Embedded, EmbeddingServer, embed_batches
from heddle.app.priming.chunk_kv_disk import chunk_kv_directory
from heddle.core.errors import ConfigError, InputError
from heddle.core.search_scope import metadata_of
from heddle.core.tasks import Priority
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.ingestion import DEFAULT_CHUNKING
from heddle.corpus.parsing.decoding import check_clean, clean
from heddle.corpus.place import Where
from heddle.corpus.records import PutOutcome
from heddle.corpus.store import CorpusStore
from heddle.kv.disk.forget_files import forget_files


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """What putting a document did: to it, to how many chunks, and the corpus's revision then."""

    outcome: PutOutcome
    embedded: Embedded
    revision: int


def document_of(
    document_id: str, text: str, *, title: str, metadata: object, tenant: str, collection: str
) -> Document:
    """Return a document as it is stored, from what a caller gives.

    Raises:
        InputError: a field can't be used; the message names it.
    """
    fields = {"id": document_id, "text": text, "title": title, "collection": collection}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise InputError(f"{name} must be a string, got {type(value).__name__}")
    check_clean(document_id, "id")
    check_clean(tenant, "tenant")
    if not document_id:
        raise InputError("id is empty: give each document one of its own")
    return Document(
        document_id,
        " ".join(clean(title).split()) or document_id,
        clean(text),
        source="",  # no file brings it
        tenant=tenant,
        collection=clean(collection),
        metadata=metadata_of({} if metadata is None else metadata),
    )


def put_document(
    server: EmbeddingServer,
    store: CorpusStore,
    document: Document,
    chunking: Chunking = DEFAULT_CHUNKING,
) -> DocumentChange:
    """Store a document, embed its new chunks, and return once searches find them.

    Until then searches find the version before. Stopped and called again, it goes on.

    Raises:
        InputError: it has no text.
        Busy, EngineError: it couldn't be embedded; it waits in the corpus.
        StorageError: the disk refuses.
    """
    chunks = chunk_document(document, chunking)
    if not chunks:
        raise InputError(f"text: the document {document.id!r} has none")
    with chunk_kv_goes_too(store):
        store.runs.set_chunking(chunking.stamp)
        outcome = store.documents.put_document(document, chunks, chunking=chunking.stamp)
        pending = store.documents.pending_chunks_of(document.id, tenant=document.tenant)
        batches = (
            pending[first : first + BATCH_ROWS] for first in range(0, len(pending), BATCH_ROWS)
        )
        embedded = embed_batches(server, batches, Priority.NORMAL)
    return DocumentChange(outcome, embedded, store.revision)


def delete_document(store: CorpusStore, document_id: str, *, tenant: str) -> bool:
    """Delete a tenant's document, its chunks' KV with it; return whether there was one.

    Where there is none, it was perhaps deleted already and the disk has kept KV: that goes now.

    Raises:
        StorageError: the disk refuses.
    """
    is_deleted = _delete(store, document_id, tenant)
    if not is_deleted:
        _forget_deleted(store, after_revision=0)
    return is_deleted


def delete_documents(where: Where, ids: Iterable[str], *, tenant: str) -> tuple[str, ...]:
    """Delete a tenant's documents from a corpus; return those that weren't there.

    A running server sees it at its next search.

    Raises:
        InputError: there is no corpus.
        StorageError: the disk refuses.
    """
    with CorpusStore.open(where) as store:
        missing = tuple(one for one in ids if not _delete(store, one, tenant))
        if missing:  # as `delete_document`, but once for all
            _forget_deleted(store, after_revision=0)
    return missing


def corpus_of(store: CorpusStore | None) -> CorpusStore:
    """Return the corpus of a server.

    Raises:
        ConfigError: it has none.
    """
    if store is None:
        raise ConfigError("this server has no corpus: give it an index")
    return store


@contextmanager
def chunk_kv_goes_too(store: CorpusStore) -> Iterator[None]:
    """Remove the stored KV of the chunks that are deleted inside, also where an error ends that."""
    revision = store.revision
    try:
        yield
    finally:
        _forget_deleted(store, revision)


def _delete(store: CorpusStore, document_id: str, tenant: str) -> bool:
    with chunk_kv_goes_too(store):
        return store.documents.delete_document(document_id, tenant=tenant)


def _forget_deleted(store: CorpusStore, after_revision: int) -> None:
    forget_files(chunk_kv_directory(store.place.work), store.deleted(after_revision).tolist())
