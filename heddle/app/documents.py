"""Single documents of a corpus, put and deleted while it is served. (DESIGN §7)"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from heddle.app.batch import Patience, submit_patiently
from heddle.app.chunk_kv_disk import chunk_kv_directory
from heddle.core.errors import ConfigError, InputError
from heddle.core.search_scope import metadata_of
from heddle.core.tasks import Priority
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import check_clean, clean
from heddle.corpus.pending import embedding_text
from heddle.corpus.records import PendingChunk, PutOutcome
from heddle.corpus.store import CorpusStore
from heddle.kv.forget_files import forget_files
from heddle.runtime.handle import Handle
from heddle.workflow.compile import Draft, compile_draft
from heddle.workflow.nodes import IndexingNode
from heddle.workflow.workflow import Workflow

BATCH_ROWS: Final = 64
BATCHES_IN_FLIGHT: Final = 6  # the embedding lane never waits, and memory stays bounded
BATCH_DEADLINE_S: Final = 3600.0


class EmbeddingServer(Protocol):
    """What embedding chunks needs of a server (heddle.app.server.Server)."""

    def submit(self, *request: Any, **how: Any) -> Handle:  # noqa: ANN401
        """Admit a request (a workflow and its inputs); see Server.submit."""
        ...


class Embedded(NamedTuple):
    """How many chunks got their vectors; some were cut to the embedder's length, or windowed."""

    chunks: int = 0
    truncated: int = 0
    windowed: int = 0


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


def put_document(server: EmbeddingServer, store: CorpusStore, document: Document) -> DocumentChange:
    """Store a document, embed what is new of it, and return when searches find it.

    The version that it replaces is found until then. Stopped and called again, it goes on.

    Raises:
        InputError: it has no text.
        ConfigError: the corpus was cut in another way than this Heddle cuts.
        Busy, EngineError: it couldn't be embedded; it waits in the corpus.
        StorageError: the disk refuses.
    """
    chunking, revision = Chunking(), store.revision
    chunks = chunk_document(document, chunking)
    if not chunks:
        raise InputError(f"text: the document {document.id!r} has none")
    store.set_chunking(chunking.stamp)
    outcome = store.put_document(document, chunks)
    pending = store.pending_chunks_of(document.id, tenant=document.tenant)
    batches = (pending[first : first + BATCH_ROWS] for first in range(0, len(pending), BATCH_ROWS))
    embedded = embed_batches(server, batches, Priority.NORMAL)
    _forget_chunk_kv(store, revision)
    return DocumentChange(outcome, embedded, store.revision)


def delete_document(store: CorpusStore, document_id: str, *, tenant: str) -> bool:
    """Delete a tenant's document, its chunks' KV with it; return whether there was one.

    Raises:
        StorageError: the disk refuses.
    """
    revision = store.revision
    is_deleted = store.delete_document(document_id, tenant=tenant)
    _forget_chunk_kv(store, revision)
    return is_deleted


def delete_documents(directory: Path, ids: Iterable[str], *, tenant: str) -> tuple[str, ...]:
    """Delete a tenant's documents from a corpus directory; return those that weren't there.

    A running server sees it at its next search.

    Raises:
        InputError: there is no corpus.
        StorageError: the disk refuses.
    """
    with CorpusStore.open(directory) as store:
        return tuple(one for one in ids if not delete_document(store, one, tenant=tenant))


def corpus_of(store: CorpusStore | None) -> CorpusStore:
    """Return the corpus of a server.

    Raises:
        ConfigError: it has none.
    """
    if store is None:
        raise ConfigError("this server has no corpus: give it an index")
    return store


def indexing_workflow() -> Workflow:
    """Return the workflow of one batch of chunks; its inputs are `texts` and `chunk_ids`."""
    node = IndexingNode("index", "texts", "chunk_ids", "stored")
    return compile_draft(
        Draft(
            name="index",
            nodes={node.id: node},
            starts=(),
            ends=(),
            edges=(),
            branches=(),
            inputs=frozenset({"texts", "chunk_ids"}),
            max_steps=1,
        )
    )


def embed_batches(
    server: EmbeddingServer,
    batches: Iterable[tuple[PendingChunk, ...]],
    priority: Priority,
    on_chunks: Callable[[int], None] = lambda done: None,
) -> Embedded:
    """Give chunks their vectors, some batches at once; `on_chunks` hears how many have theirs.

    Raises:
        Busy, EngineError: a batch failed; what is stored by then stays.
    """
    workflow, done = indexing_workflow(), Embedded()
    in_flight: deque[tuple[Handle, int]] = deque()

    def submit(inputs: object) -> Handle:
        return server.submit(workflow, inputs, priority=priority, deadline_s=BATCH_DEADLINE_S)

    for batch in batches:
        if len(in_flight) == BATCHES_IN_FLIGHT:
            done = _wait(in_flight, done)
            on_chunks(done.chunks)
        handles = [handle for handle, _ in in_flight]
        handle = submit_patiently(submit, _inputs(batch), handles, Patience(BATCH_DEADLINE_S))
        in_flight.append((handle, len(batch)))
    while in_flight:
        done = _wait(in_flight, done)
        on_chunks(done.chunks)
    return done


def _inputs(batch: tuple[PendingChunk, ...]) -> dict[str, object]:
    return {
        "texts": tuple(embedding_text(chunk.title, chunk.text) for chunk in batch),
        "chunk_ids": tuple(chunk.chunk_id for chunk in batch),
    }


def _wait(in_flight: deque[tuple[Handle, int]], done: Embedded) -> Embedded:
    """Wait for the oldest batch, and return what is done with it."""
    handle, rows = in_flight.popleft()
    receipt = handle.result().receipt
    return Embedded(
        done.chunks + rows,
        done.truncated + receipt.texts_truncated,
        done.windowed + receipt.texts_windowed,
    )


def _forget_chunk_kv(store: CorpusStore, revision: int) -> None:
    """Remove the stored KV of chunks that were deleted after a revision."""
    forget_files(chunk_kv_directory(store.directory), store.deleted(revision).tolist())
