"""The corpus: documents, chunks and vectors, in one directory. (docs/architecture.md#what-lasts)

SQLite is the only write-ahead log; every index file is derived from what `vectors` and `deleted`
tell, and replays from the revision it covers.

What a search sees is whole documents only. A new or changed document is *pending* while its
chunks wait for their vectors; the transaction that stores the last one makes it *live*, deletes
the version it replaces, leaves tombstones for that one's chunks, and raises `revision` by one. So
a stop at any moment leaves every document in its old version or in its new one, and what was
embedded before the stop is kept.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import Cancelled, ConfigError, InputError
from heddle.core.passages import Passage
from heddle.core.search_scope import NO_PASSAGE, SearchScope
from heddle.corpus import document_table, meta_table, scope_query, vector_table, word_search
from heddle.corpus.checks.chunk_check import find_damaged
from heddle.corpus.checks.corpus_check import CorpusCheck, check_corpus
from heddle.corpus.checks.damage import DamagedChunk, DamageLog, damage_error
from heddle.corpus.chunking import TextChunk
from heddle.corpus.database import FILE_NAME, Database
from heddle.corpus.deletion import delete_documents
from heddle.corpus.document import Document
from heddle.corpus.records import (
    CorpusStats,
    EmbedderStamp,
    ListedDocument,
    PendingChunk,
    PutOutcome,
    SourceFile,
    VectorBatch,
    outermost,
)
from heddle.corpus.vector_stores.attached_files import AttachedFiles
from heddle.corpus.vector_stores.file_queue import FileQueue, is_waiting
from heddle.corpus.vector_stores.records import AttachedFile
from heddle.corpus.vector_stores.uploads import Uploads
from heddle.corpus.vector_stores.vector_stores import VectorStores

__all__ = ["CorpusStats", "CorpusStore", "EmbedderStamp", "PendingChunk", "VectorBatch"]

_PRIMED_KEY = "primed with neighbours: "  # and the model's name
_EMBEDDER_KEYS = ("embedder_model", "embedder_dims", "embedder_dtype")
_REINDEX = "index into another directory: heddle index PATH... --into NEW_DIR"


class CorpusStore:
    """A corpus directory, usable from several threads and several processes at once.

    Every method that writes is one short transaction, on the disk when it returns.

    Raises, from every method: StorageError when the disk refuses (full, read-only, damaged).
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.damage = DamageLog(database.path.parent)
        self.uploads = Uploads(database)
        self.vector_stores = VectorStores(database)
        self.attached_files = AttachedFiles(database)
        self.file_queue = FileQueue(database)

    @classmethod
    def open(cls, directory: Path, *, create: bool = False) -> "CorpusStore":
        """Open the corpus in a directory; with `create`, make what is missing.

        Raises:
            InputError: there is no corpus here and `create` is False, or the path is a file.
            ConfigError: a newer Heddle wrote it.
            StorageError: the disk refuses, or the file is damaged or not a corpus.
        """
        return cls(Database.open(Path(directory), create=create))

    @staticmethod
    def exists(directory: Path) -> bool:
        """Whether a corpus has been made in a directory."""
        return (directory / FILE_NAME).exists()

    @staticmethod
    def remove(directory: Path) -> None:
        """Delete a closed corpus's files; what else is in the directory stays."""
        for suffix in ("", "-wal", "-shm"):
            (directory / f"{FILE_NAME}{suffix}").unlink(missing_ok=True)

    def close(self) -> None:
        """Close the connections of all threads; closing twice is fine."""
        self._database.close()

    def __enter__(self) -> "CorpusStore":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        """Where it lives."""
        return self._database.path.parent

    # What a search index reads

    @property
    def revision(self) -> int:
        """Grows by one with every committed change to what a search sees; 0 when new."""
        with self._database.read() as connection:
            return meta_table.revision(connection)

    @property
    def vector_count(self) -> int:
        """How many vectors `vectors()` gives: those of live documents."""
        with self._database.read() as connection:
            return meta_table.number(connection, "SELECT count(*) FROM vectors WHERE revision > 0")

    def count_part(self, number: int, of: int) -> int:
        """Return how many vectors `vectors()` gives for this `number` and `of`."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT count(*) FROM vectors WHERE revision > 0 AND chunk_id % ? = ?", (of, number)
            )
            return int(rows.fetchone()[0])

    def count_vectors(self, upto: int) -> int:
        """Return `vector_count`, or `upto` where there are as many: quick in any corpus."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT count(*) FROM (SELECT 1 FROM vectors WHERE revision > 0 LIMIT ?)", (upto,)
            )
            return int(rows.fetchone()[0])

    @property
    def dims(self) -> int:
        """The vectors' dimensions; 0 while no embedder is set."""
        stamp = self.embedder
        return 0 if stamp is None else stamp.dims

    def vectors(
        self,
        after_revision: int = 0,
        batch_rows: int = 4096,
        *,
        upto_revision: int | None = None,
        number: int = 0,
        of: int = 1,
    ) -> Iterator[VectorBatch]:
        """Give the live vectors that became searchable after a revision, oldest change first.

        With `number` and `of`, those of chunks whose id leaves `number` when divided by `of`.

        No transaction stays open between two batches. For an index that is to cover exactly one
        revision, read `revision` first and pass it as `upto_revision`, here and to `deleted`;
        what is deleted meanwhile is left out here and comes in a later `deleted`, so a reader
        ignores deleted ids that it doesn't hold.

        Raises: StorageError: one of them is damaged.
        """
        dims = self.dims
        upto = self.revision if upto_revision is None else upto_revision
        # (after_revision + 1, 0) sorts before every chunk of the next revision: ids start at 1.
        after = (max(after_revision, 0) + 1, 0)
        while True:
            with self._database.read() as connection:
                found = vector_table.read_batch(
                    connection, after, upto, batch_rows, dims, number=number, of=of
                )
            if found is None:
                return
            batch, after, damaged = found
            if damaged:
                self._note(damaged)
                raise damage_error(self.directory, damaged)
            yield batch

    def deleted(
        self, after_revision: int, *, upto_revision: int | None = None
    ) -> NDArray[np.int64]:
        """Return the chunk ids that were deleted after a revision. Shape: [n] int64."""
        with self._database.read() as connection:
            upto = meta_table.revision(connection) if upto_revision is None else upto_revision
            rows = connection.execute(
                "SELECT chunk_id FROM tombstones WHERE revision > ? AND revision <= ?"
                " ORDER BY revision, chunk_id",
                (after_revision, upto),
            ).fetchall()
        return np.array([row[0] for row in rows], dtype=np.int64)

    def changes_since(self, revision: int) -> int:
        """Return how many vectors and deletions a search has to learn of after a revision."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT (SELECT count(*) FROM vectors WHERE revision > ?1)"
                " + (SELECT count(*) FROM tombstones WHERE revision > ?1)",
                (revision,),
            )
            return int(rows.fetchone()[0])

    def allowed(self, scope: SearchScope) -> NDArray[np.int64] | None:
        """Return the ids of the live chunks in a scope, [n] int64, ascending; None = all are.

        Raises: InputError: none fits what its `where` asks for.
        """
        with self._database.read() as connection:
            found = scope_query.chunk_ids(connection, scope)
        if scope.where and found is not None and not len(found):
            raise InputError(f"{NO_PASSAGE} {scope}")
        return found

    def has_any(self, scope: SearchScope) -> bool:
        """Whether a search in this scope can find anything."""
        with self._database.read() as connection:
            return scope_query.has_any(connection, scope)

    def is_limited(self, scope: SearchScope) -> bool:
        """Whether `allowed` would name chunks: there may be others than those in this scope."""
        with self._database.read() as connection:
            return scope_query.is_limited(connection, scope)

    def by_words(
        self,
        text: str,
        limit: int,
        scope: SearchScope,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> VectorBatch:
        """Return the live chunks in a scope that share words with a text, the best by BM25 first.

        Those whose vectors are damaged are left out.

        Shapes: up to `limit` rows.

        Raises: sqlite3.OperationalError: it was cancelled.
        """
        dims = self.dims
        with self._database.read() as connection:
            with word_search.stopped_when(connection, is_cancelled):
                found = word_search.best_by_words(connection, text, limit, scope)
            batch, damaged = vector_table.read_chunks(connection, found, dims)
        self._note(damaged)
        return batch

    def has_deleted(self, chunk_ids: Sequence[int]) -> bool:
        """Whether any of these chunks was searchable once and is deleted."""
        with self._database.read() as connection:
            return vector_table.has_tombstone(connection, [int(chunk_id) for chunk_id in chunk_ids])

    def passages(self, chunk_ids: Sequence[int]) -> tuple[Passage, ...]:
        """Return the live chunks among these ids, in the order asked; others are left out.

        So are damaged ones, which `damage` and the log name.
        """
        asked = [int(chunk_id) for chunk_id in chunk_ids]
        with self._database.read() as connection:
            found, damaged = vector_table.read_passages(connection, asked)
        self.damage.note(damaged)
        return tuple(found)

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return how many of these chunks are known to be damaged, of those a tenant may see."""
        return self.damage.count_among(chunk_ids, tenant)

    def check_damaged(self) -> None:
        """Look at the chunks that are known to be damaged again; forget what is mended."""
        known = [chunk.chunk_id for chunk in self.damage.found()]
        if known:
            still = {chunk.chunk_id for chunk in self._damaged_among(known)}
            self.damage.settle(one for one in known if one not in still)

    # Chunk KV

    def primed_with(self, model: str) -> int | None:
        """Return with how many neighbours a model's KV of the chunks is primed; None: it isn't."""
        with self._database.read() as connection:
            found = meta_table.read(connection, _PRIMED_KEY + model)
        return None if found is None else int(found)

    def set_primed_with(self, model: str, neighbours_max: int) -> None:
        """Say that a model's KV of the chunks is to be primed, with so many neighbours."""
        with self._database.write() as connection:
            meta_table.write(connection, _PRIMED_KEY + model, neighbours_max)

    def count_owned(self, tenant: str, collection: str) -> int:
        """Return how many searchable chunks a tenant has in a collection."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT count(*) FROM documents JOIN chunks USING (version)"
                " WHERE tenant = ? AND collection = ? AND status = 'live' AND same_as IS NULL",
                (tenant, collection),
            )
            return int(rows.fetchone()[0])

    def passage_before(self, chunk_id: int) -> Passage | None:
        """Return the chunk that precedes a live one in its document; None for the first."""
        with self._database.read() as connection:
            before = vector_table.preceding(connection, chunk_id)
        return next(iter(self.passages(before)), None)

    def vectors_of(self, chunk_ids: Sequence[int]) -> VectorBatch:
        """Return the vectors of those of these chunks that have one, in the order asked.

        Damaged ones are left out; `damage` and the log name them.
        """
        dims = self.dims
        with self._database.read() as connection:
            batch, damaged = vector_table.read_chunks(connection, [int(i) for i in chunk_ids], dims)
        self._note(damaged)
        return batch

    # Embedding

    @property
    def embedder(self) -> EmbedderStamp | None:
        """Which model the vectors come from; None while none is set."""
        with self._database.read() as connection:
            return _embedder(connection)

    def set_embedder(self, stamp: EmbedderStamp) -> None:
        """Say which model makes the vectors; once there are vectors, no other one can.

        Raises:
            ConfigError: another model made the vectors that are here, or its dims aren't positive.
        """
        if stamp.dims <= 0:
            raise ConfigError(f"the embedder {stamp.model!r} has {stamp.dims} dimensions")
        with self._database.write() as connection:
            stored = _embedder(connection)
            if stored == stamp:
                return
            if (
                stored is not None
                and meta_table.number(connection, "SELECT count(*) FROM vectors") > 0
            ):
                raise ConfigError(
                    f"{self.directory} holds vectors of {_describe(stored)}, which"
                    f" {_describe(stamp)} can't search or add to; use that model, or {_REINDEX}"
                )
            values: tuple[str | int, ...] = (stamp.model, stamp.dims, stamp.dtype)
            for key, value in zip(_EMBEDDER_KEYS, values, strict=True):
                meta_table.write(connection, key, value)

    def pending_chunks(self, limit: int, *, after: int = 0) -> tuple[PendingChunk, ...]:
        """Return up to `limit` chunks without a vector, with ids above `after`, by ascending id."""
        with self._database.read() as connection:
            return tuple(vector_table.read_pending(connection, limit, after))

    def pending_chunks_of(self, document_id: str, *, tenant: str = "") -> tuple[PendingChunk, ...]:
        """Return the chunks without a vector of one document, by ascending id."""
        with self._database.read() as connection:
            return tuple(vector_table.read_pending_of(connection, (tenant, document_id)))

    def store_vectors(self, chunk_ids: Sequence[int], vectors: NDArray[np.float32]) -> int:
        """Store chunks' vectors and make the documents live that are complete with them.

        Ids that are unknown, deleted, or have a vector are skipped, so a retry is harmless.

        Shapes: chunk_ids [n]; vectors [n, d] float32, normalised.
        Returns: the revision after it: raised by one if a document became live, else as it was.

        Raises:
            ConfigError: no embedder is set, or the shape doesn't fit it.
            InputError: a vector holds an infinity or a NaN, or a chunk is there twice.
        """
        ids = [int(chunk_id) for chunk_id in chunk_ids]
        with self._database.write() as connection:
            self._check_vectors(ids, vectors, _embedder(connection))
            revision = meta_table.revision(connection)
            candidates = vector_table.store(connection, ids, vectors)
            if document_table.publish_complete(connection, candidates, revision + 1):
                revision += 1
                meta_table.write(connection, "revision", revision)
        self.check_damaged()
        return revision

    # Documents

    def put_document(
        self, document: Document, chunks: Sequence[TextChunk], *, chunking: str = ""
    ) -> PutOutcome:
        """Store a document, or a new version of it, to be embedded.

        The version that it replaces stays searchable until this one has all its vectors.

        Raises:
            InputError: it has no chunks.
        """
        return self.put_documents(((document, chunks),), chunking=chunking)[0]

    def put_documents(
        self,
        items: Iterable[tuple[Document, Sequence[TextChunk]]],
        *,
        scan: int = 0,
        chunking: str = "",
        file: AttachedFile | None = None,
    ) -> tuple[PutOutcome, ...]:
        """Store documents with their chunks in one transaction: all of them or none.

        Args:
            items: documents with their chunks.
            scan: the number of an indexing run, from `begin_scan`; ids are then checked to be
                unique within the run and over the files that are known. 0 = no run, no check.
            chunking: how the texts were cut. A text that was cut in another way is a new version.
            file: the file of a vector store that they are of; None = they are of no such file.

        Raises:
            InputError: a document has no chunks, or in a run its id is not unique.
            Cancelled: any process has taken the file out of its store since it was begun.
        """
        with self._database.write() as connection:
            if file is not None and not is_waiting(connection, file):
                raise Cancelled(f"{file.name} is no longer wanted")
            revision = meta_table.revision(connection) + 1
            put = [
                document_table.put(
                    connection, document, chunks, scan=scan, chunking=chunking, revision=revision
                )
                for document, chunks in items
            ]
            # A document whose chunks have all been embedded for others needs no more.
            new = [version for _, version in put if version is not None]
            published = document_table.publish_complete(connection, new, revision)
            outcomes = tuple(outcome for outcome, _ in put)
            if published or PutOutcome.DESCRIBED in outcomes:  # filters let others pass
                meta_table.write(connection, "revision", revision)
        self.check_damaged()
        return outcomes

    def delete_document(self, document_id: str, *, tenant: str = "") -> bool:
        """Delete a tenant's document with its chunks and vectors; return whether there was one."""
        with self._database.write() as connection:
            is_known = bool(document_table.versions(connection, (tenant, document_id)))
            delete_documents(connection, ((tenant, document_id),))
        self.check_damaged()
        return is_known

    # Indexing runs

    def begin_scan(self) -> int:
        """Return the number of a new indexing run, above all before it."""
        with self._database.write() as connection:
            scan = meta_table.number(connection, "SELECT value FROM meta WHERE key = 'scan'") + 1
            meta_table.write(connection, "scan", scan)
            return scan

    @property
    def chunking(self) -> str | None:
        """How the last run has cut texts; None before the first."""
        with self._database.read() as connection:
            return meta_table.read(connection, "chunking")

    def set_chunking(self, stamp: str) -> None:
        """Say how texts are cut from now on; those that are here stay as they are."""
        with self._database.write() as connection:
            meta_table.write(connection, "chunking", stamp)

    def check(self) -> CorpusCheck:
        """Check the file, and every chunk and vector against its checksum; reads all of it."""
        with self._database.read() as connection:
            return check_corpus(connection)

    def vector_ids(self) -> NDArray[np.int64]:
        """Return the chunks whose vectors `vectors()` gives, ascending. Shape: [n] int64."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT chunk_id FROM vectors WHERE revision > 0 ORDER BY chunk_id"
            )
            return np.fromiter((row[0] for row in rows), np.int64)

    def damaged_sources(self) -> set[str]:
        """Return the files that brought documents of which chunks are damaged; "" = none did.

        Reads every chunk and vector.
        """
        with self._database.read() as connection:
            return document_table.damaged_sources(connection)

    def source(self, name: str) -> SourceFile | None:
        """Return a file as it was when it was last taken in whole, or None."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT name, sha256, size, mtime_ns, chunking FROM sources WHERE name = ?", (name,)
            ).fetchone()
        return None if row is None else SourceFile(*row)

    def source_names(self) -> tuple[str, ...]:
        """Return the files that documents come from, also those taken in only in part; sorted."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT source FROM documents UNION SELECT name FROM sources ORDER BY 1"
            ).fetchall()
        return tuple(row[0] for row in rows)

    def finish_source(self, source: SourceFile, scan: int) -> int:
        """Record that a file is in, whole, and delete what it no longer says.

        Returns: how many documents were deleted.
        """
        with self._database.write() as connection:
            gone = document_table.keys_of_source(connection, source.name, scan)
            delete_documents(connection, gone)
            connection.execute(
                "INSERT OR REPLACE INTO sources (name, sha256, size, mtime_ns, chunking)"
                " VALUES (?, ?, ?, ?, ?)",
                (source.name, source.sha256, source.size, source.mtime_ns, source.chunking),
            )
            return len(gone)

    def touch_source(self, source: SourceFile) -> None:
        """Record a file's new time, its content being the same."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE sources SET mtime_ns = ? WHERE name = ?", (source.mtime_ns, source.name)
            )

    def forget_sources(self, names: Iterable[str]) -> None:
        """Give up files' claim on their documents' ids, so that another file may bring them."""
        with self._database.write() as connection:
            connection.executemany("DELETE FROM sources WHERE name = ?", ((n,) for n in names))

    def delete_sources(self, names: Iterable[str]) -> int:
        """Delete the documents that still come from these files; return how many."""
        deleted = 0
        with self._database.write() as connection:
            scan_above_all = (
                meta_table.number(connection, "SELECT value FROM meta WHERE key = 'scan'") + 1
            )
            for name in names:
                gone = document_table.keys_of_source(connection, name, scan_above_all)
                delete_documents(connection, gone)
                connection.execute("DELETE FROM sources WHERE name = ?", (name,))
                deleted += len(gone)
        return deleted

    @property
    def follows_links(self) -> bool:
        """Whether links that lead out of the indexed paths are followed."""
        with self._database.read() as connection:
            return meta_table.read(connection, "follows_links") == "yes"

    def set_follows_links(self, follows: bool) -> None:
        """Say whether links that lead out of the indexed paths are followed from now on."""
        with self._database.write() as connection:
            meta_table.write(connection, "follows_links", "yes" if follows else "no")

    @property
    def roots(self) -> tuple[str, ...]:
        """The paths that were indexed, sorted; of one inside another only the outer."""
        with self._database.read() as connection:
            return tuple(json.loads(meta_table.read(connection, "roots") or "[]"))

    def add_roots(self, paths: Iterable[str]) -> None:
        """Record paths that were indexed, for the next time."""
        new = set(paths)
        with self._database.write() as connection:
            known = set(json.loads(meta_table.read(connection, "roots") or "[]"))
            if not new <= known:
                outer = outermost(known | new)
                meta_table.write(connection, "roots", json.dumps(outer))

    def listed(self) -> tuple[ListedDocument, ...]:
        """Return every document, by file and id; of two versions the newer."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id, tenant, documents.title, file, collection, count(chunk_id)"
                " FROM documents LEFT JOIN chunks USING (version)"
                " WHERE version = (SELECT max(version) FROM documents AS other"
                "  WHERE other.id = documents.id AND other.tenant = documents.tenant)"
                " GROUP BY version ORDER BY file, id, tenant"
            ).fetchall()
        return tuple(ListedDocument(*row) for row in rows)

    def listed_after(
        self, after: tuple[str, str] | None, limit: int, tenant: str = "", contains: str = ""
    ) -> tuple[ListedDocument, ...]:
        """Return up to `limit` documents by id, those that searches of a tenant find.

        Args:
            after: id and tenant of a document: only those behind it; None = from the first one.
            limit: how many, at most.
            tenant: its documents are listed beside those of no tenant.
            contains: text that the id or the title holds; small letters and capitals are the same
                in ASCII; "" = any.
        """
        first_id, first_tenant = after or ("", "")
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id, tenant, documents.title, file, collection, count(chunk_id)"
                " FROM documents LEFT JOIN chunks USING (version)"
                " WHERE version = (SELECT max(version) FROM documents AS other"
                "  WHERE other.id = documents.id AND other.tenant = documents.tenant)"
                " AND tenant IN ('', ?) AND (? OR (id, tenant) > (?, ?))"
                " AND instr(lower(id || char(10) || documents.title), lower(?)) > 0"
                " GROUP BY version ORDER BY id, tenant LIMIT ?",
                (tenant, after is None, first_id, first_tenant, contains, limit),
            ).fetchall()
        return tuple(ListedDocument(*row) for row in rows)

    def stats(self) -> CorpusStats:
        """Count what is here."""
        with self._database.read() as connection:
            documents, chunks, vectors, pending, twins, outdated = connection.execute(
                "SELECT (SELECT count(*) FROM (SELECT DISTINCT tenant, id FROM documents)),"
                " (SELECT count(*) FROM chunks), (SELECT count(*) FROM vectors),"
                " (SELECT count(DISTINCT coalesce(digest, chunk_id)) FROM chunks"
                "  WHERE embedded = 0),"
                " (SELECT count(*) FROM chunks WHERE same_as IS NOT NULL),"
                " (SELECT count(*) FROM documents WHERE status = 'live' AND chunking = '')"
            ).fetchone()
            size = self._database.bytes_on_disk
        return CorpusStats(documents, chunks, vectors, pending, size, twins, outdated)

    def check_chunks(self, after: int, limit: int) -> tuple[int, ...]:
        """Check up to `limit` chunks with ids above `after`; return their ids, ascending.

        `damage` and the log name the damaged ones.
        """
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT chunk_id FROM chunks WHERE chunk_id > ? ORDER BY chunk_id LIMIT ?",
                (after, limit),
            )
            chunk_ids = tuple(row[0] for row in rows)
        self.damage.note(self._damaged_among(chunk_ids))
        return chunk_ids

    def _damaged_among(self, chunk_ids: Sequence[int]) -> list[DamagedChunk]:
        with self._database.read() as connection:
            among = "chunk_id IN (SELECT value FROM json_each(?))"
            return find_damaged(connection, among, (json.dumps(list(chunk_ids)),))

    def _note(self, chunk_ids: Sequence[int]) -> None:
        """Log and remember chunks whose vectors are damaged."""
        if chunk_ids:
            self.damage.note(self._damaged_among(chunk_ids))

    def _check_vectors(
        self, ids: Sequence[int], vectors: NDArray[np.float32], stamp: EmbedderStamp | None
    ) -> None:
        if stamp is None:
            raise ConfigError(f"{self.directory}: no embedder is set; call set_embedder first")
        if vectors.shape != (len(ids), stamp.dims):
            raise ConfigError(
                f"vectors of shape {vectors.shape} for {len(ids)} chunks of {self.directory},"
                f" which holds {_describe(stamp)}; use that model, or {_REINDEX}"
            )
        if not np.isfinite(vectors).all():
            row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise InputError(f"the vector of chunk {ids[row]} holds an infinity or a NaN")
        if len(set(ids)) < len(ids):
            twice = next(chunk_id for chunk_id, count in Counter(ids).items() if count > 1)
            raise InputError(f"chunk {twice} has more than one vector; give each once")


def _describe(stamp: EmbedderStamp) -> str:
    return f"{stamp.model} ({stamp.dims} dimensions, {stamp.dtype})"


def _embedder(connection: sqlite3.Connection) -> EmbedderStamp | None:
    # One statement, so that another process can't set the embedder between two of its values.
    model, dims, dtype = connection.execute(
        "SELECT " + ", ".join(["(SELECT value FROM meta WHERE key = ?)"] * 3), _EMBEDDER_KEYS
    ).fetchone()
    return None if model is None else EmbedderStamp(str(model), int(dims), str(dtype))
