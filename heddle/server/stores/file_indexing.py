"""The thread that takes files into their vector stores, one after the other.

The queue is on the disk: a server that starts goes on where the last one stopped. Of several
servers on one corpus only one works at it, and another takes over when that one ends.
"""

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol, Self

from heddle.app.indexing.chunk_embedding import BATCH_ROWS, BATCHES_IN_FLIGHT, embed_batches
from heddle.app.indexing.documents import chunk_kv_goes_too, corpus_of
from heddle.app.indexing.sent_file import sent_file
from heddle.core.errors import Cancelled, HeddleError, InputError
from heddle.core.search_scope import metadata_of
from heddle.core.tasks import Priority
from heddle.corpus.chunking import Chunking
from heddle.corpus.document import Document
from heddle.corpus.ingestion import Batch, document_batches
from heddle.corpus.parsing.guarded_parser import GuardedParser
from heddle.corpus.parsing.limits import SENT_LIMITS
from heddle.corpus.rows.connection import Claim
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_stores.document_names import FILE_KEY, STORE_KEY, document_id
from heddle.corpus.vector_stores.records import AttachedFile, FailureKind
from heddle.runtime.handle import Handle

ATTEMPTS_MAX: Final = 3
LOOK_S: Final = 5.0  # until the disk is asked again: another server may have put a file there
VALUE_BYTES: Final = 4  # of a vector

log = logging.getLogger(__name__)


class IndexingServer(Protocol):
    """What the thread needs of a server (heddle.app.server.Server)."""

    @property
    def store(self) -> CorpusStore | None:
        """The corpus, if there is one."""
        ...

    def submit(self, *request: Any, **how: Any) -> Handle:  # noqa: ANN401
        """Admit a request; see Server.submit."""
        ...

    def chunking(self) -> Chunking:
        """Return how texts are cut."""
        ...


class FileIndexing:
    """Indexes the files that wait in a server's corpus. Use it as a context manager.

    Its chunks are embedded as bulk work, behind everybody's questions.

    Args:
        server: it runs until this is left.

    Raises:
        ConfigError: the server has no corpus.
    """

    def __init__(self, server: IndexingServer) -> None:
        self._server = server
        self._store = corpus_of(server.store)
        self._changed = threading.Condition()
        self._is_stopping = self._has_news = self._is_interrupted = False
        self._claim: Claim | None = None  # the thread's
        self._current: AttachedFile | None = None
        self._parser: GuardedParser | None = None
        self._handles: deque[Handle] = deque(maxlen=BATCHES_IN_FLIGHT + 1)
        self._thread = threading.Thread(target=self._run, name="heddle-files", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread; the file that it is at waits for the next server."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            self._interrupt()
        self._thread.join()

    def wake(self) -> None:
        """Look at the queue now: there is something new."""
        with self._changed:
            self._has_news = True
            self._changed.notify_all()

    def leave(self, file_id: str = "", store_id: str = "") -> None:
        """Wait until a file that was taken out of the queue is let go.

        After this nothing of it comes into the corpus any more.

        Args:
            file_id: the file; "" = any file of the store.
            store_id: the store that it left; "" = it left every store.
        """
        assert file_id or store_id, "neither a file nor a store is named"

        def is_left() -> bool:
            now = self._current
            return (
                now is None
                or file_id not in ("", now.file_id)
                or store_id not in ("", now.store_id)
            )

        with self._changed:
            if not is_left():
                self._interrupt()  # under the lock: the thread can't be at another file yet
                self._changed.wait_for(is_left)

    def submit(self, *request: Any, **how: Any) -> Handle:  # noqa: ANN401
        """Admit a batch of chunks.

        Raises:
            Cancelled: the thread is to end, or its file is no longer wanted.
        """
        with self._changed:
            file = None if self._is_stopping else self._current
        if file is None or not self._store.file_queue.waits(file):
            raise Cancelled("the file is no longer wanted, or the server stops")
        handle = self._server.submit(*request, **how)
        with self._changed:
            self._handles.append(handle)
            if self._is_interrupted:  # before the handle was among those that this ends
                handle.cancel_soon()
        return handle

    def _interrupt(self) -> None:
        """End what the thread waits for."""
        self._is_interrupted = True
        for handle in tuple(self._handles):
            handle.cancel_soon()
        parser = self._parser
        if parser is not None and parser.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(parser.pid, signal.SIGKILL)

    def _run(self) -> None:
        problem = ""
        try:
            while not self._is_stopping:
                has_worked = False
                try:
                    has_worked = self._has_queue() and self._take_next()
                except HeddleError as error:
                    if not self._is_stopping and str(error) != problem:
                        log.warning("files for vector stores wait: %s", error)
                    problem = str(error)
                    self._drop_claim()  # it may have ended with the database
                if not has_worked:
                    self._rest()
        finally:
            self._drop_claim()

    def _has_queue(self) -> bool:
        """Whether the queue is this server's to work at; asks for it where it isn't."""
        if self._claim is not None and not self._claim.is_held:
            log.warning("the session that held the queue of files has ended: asking for it anew")
            self._drop_claim()
        if self._claim is None:
            self._claim = self._store.file_queue.claim()
        return self._claim is not None

    def _drop_claim(self) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.release()

    def _rest(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._has_news or self._is_stopping, LOOK_S)
            self._has_news = False

    def _take_next(self) -> bool:
        """Index the file that waits longest; return whether to go on at once."""
        file = self._store.file_queue.begin()
        if file is None:
            return False
        with self._changed:
            self._current, self._is_interrupted = file, False
        try:
            with chunk_kv_goes_too(self._store):
                return self._indexed(file)
        finally:
            self._handles.clear()
            with self._changed:
                self._current = None
                self._changed.notify_all()

    def _indexed(self, file: AttachedFile) -> bool:
        """Index a file, or say why it can't be; return whether to go on at once."""
        queue = self._store.file_queue
        if file.attempts > ATTEMPTS_MAX:
            why = f"the server ended {ATTEMPTS_MAX} times while it indexed this file"
            return self._failed(file, FailureKind.SERVER_ERROR, why)
        try:
            self._take_in(file)
        except HeddleError as error:
            if self._is_stopping:
                queue.put_back(file)
            elif not queue.waits(file):
                queue.complete(file, 0, 0)
            elif self._is_interrupted or isinstance(error, Cancelled):
                queue.put_back(file)  # it was taken out and put in again: the error is not its own
            elif isinstance(error, InputError):
                return self._failed(file, FailureKind.INVALID_FILE, str(error))
            elif file.attempts == ATTEMPTS_MAX:
                return self._failed(file, FailureKind.SERVER_ERROR, str(error))
            else:
                log.warning("%s waits for another attempt: %s", file.file_id, error)
                return False
        except Exception:
            log.exception("indexing %s failed", file.file_id)
            why = "a bug in Heddle; the server's log has the details"
            return self._failed(file, FailureKind.SERVER_ERROR, why)
        return True

    def _failed(self, file: AttachedFile, kind: FailureKind, why: str) -> bool:
        log.warning("%s can't be indexed: %s", file.file_id, why)
        self._store.file_queue.fail(file, kind, why)
        return True

    def _take_in(self, file: AttachedFile) -> None:
        """Store and embed a file's documents.

        Raises:
            InputError: it can't be read, or has no text; the message names it as its owner does.
            HeddleError: the disk or the embedder refuses, or the file is no longer wanted.
        """
        content = self._store.uploads.content(file.tenant, file.file_id)
        # Asked now: who takes a file out from here on waits until the thread has let it go.
        if content is None or not self._store.file_queue.waits(file):
            raise Cancelled("the file is gone")
        chunking = self._server.chunking()
        self._store.runs.set_chunking(chunking.stamp)
        with sent_file(file.name, content) as path, GuardedParser(SENT_LIMITS) as parser:
            self._parser = parser
            try:
                found = _Found()
                documents = _documents(file, parser.documents(path), found)
                for batch in document_batches(documents, chunking):
                    self._put(file, batch, chunking, found)
                if not found.chunks:
                    raise InputError(f"{file.name}: no text in it")
                self._store.file_queue.complete(file, found.documents, found.bytes)
            except InputError as error:
                raise InputError(str(error).replace(str(path), file.name)) from error
            finally:
                self._parser = None

    def _put(self, file: AttachedFile, batch: Batch, chunking: Chunking, found: "_Found") -> None:
        self._store.documents.put_documents(batch, chunking=chunking.stamp, file=file)
        pending = [
            chunk
            for document, _ in batch
            for chunk in self._store.documents.pending_chunks_of(
                document.id, tenant=document.tenant
            )
        ]
        rows = (pending[at : at + BATCH_ROWS] for at in range(0, len(pending), BATCH_ROWS))
        embed_batches(self, map(tuple, rows), Priority.BULK)
        vector_bytes = VALUE_BYTES * self._store.dims
        for _, chunks in batch:
            found.chunks += len(chunks)
            found.bytes += sum(len(chunk.text.encode()) + vector_bytes for chunk in chunks)


class _Found:
    """What a file has held up to now. Mutates: all of it."""

    def __init__(self) -> None:
        self.documents = self.chunks = self.bytes = 0


def _documents(file: AttachedFile, parsed: Iterator[Document], found: _Found) -> Iterator[Document]:
    """Give a file's documents as the corpus stores them: in its store and for its tenant only.

    Whose they are is the key's to say and not the file's: the tenants that lines of JSONL name
    count for nothing here.
    """
    given = metadata_of(
        {**file.attributes, STORE_KEY: file.store_id, FILE_KEY: file.file_id}, "attributes"
    )
    keys = {key for key, _ in given}
    for document in parsed:
        own = (pair for pair in document.metadata if pair[0] not in keys)
        yield replace(
            document,
            id=document_id(file.store_id, file.file_id, found.documents),
            source="",
            file=file.name,
            tenant=file.tenant,
            collection=file.store_id,
            metadata=tuple(sorted({*own, *given})),
        )
        found.documents += 1
