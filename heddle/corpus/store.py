"""The corpus: documents, chunks and vectors, with one log. (docs/design/architecture.md#what-lasts)

SQLite or PostgreSQL is the only write-ahead log; every index file is derived from what `vectors`
and `deleted` tell, and replays from the revision it covers.

What a search sees is whole documents only. A new or changed document is *pending* while its
chunks wait for their vectors; the transaction that stores the last one makes it *live*, deletes
the version it replaces, leaves tombstones for that one's chunks, and raises `revision` by one. So
a stop at any moment leaves every document in its old version or in its new one, and what was
embedded before the stop is kept.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError, InputError
from heddle.core.passages import Passage
from heddle.core.search_scope import NO_PASSAGE, SearchScope
from heddle.corpus.backends import backend_of
from heddle.corpus.checks.health import CorpusHealth
from heddle.corpus.chunk_kv_log import ChunkKvLog
from heddle.corpus.damage import damage_error
from heddle.corpus.documents import Documents
from heddle.corpus.indexing_runs import IndexingRuns
from heddle.corpus.place import CorpusPlace, Where
from heddle.corpus.records import CorpusStats, EmbedderStamp, VectorBatch
from heddle.corpus.rows import document_table, meta_table, scope_query, vector_table
from heddle.corpus.rows.connection import Database
from heddle.corpus.vector_stores.attached_files import AttachedFiles
from heddle.corpus.vector_stores.file_queue import FileQueue
from heddle.corpus.vector_stores.uploads import Uploads
from heddle.corpus.vector_stores.vector_stores import VectorStores

__all__ = ["CorpusStats", "CorpusStore", "EmbedderStamp", "VectorBatch"]

_REINDEX = "index into another directory: heddle index PATH... --into NEW_DIR"


class CorpusStore(AbstractContextManager["CorpusStore", None]):
    """A corpus, usable from several threads and several processes at once.

    What search lanes and the runtime read of it are methods here; its other sides are objects:

    * `documents`: what is put, deleted, listed, and waits for vectors;
    * `runs`: the files that documents came from, and how they were cut;
    * `chunk_kv`: what the KV of chunks depends on;
    * `health`: which chunks are damaged;
    * `uploads`, `vector_stores`, `attached_files`, `file_queue`: files that clients have sent;
    * `vector_index`: searches by vectors inside the database; None = it can't have any.

    Every method that writes is one short transaction, on the disk when it returns.

    Args:
        database: what holds it.
        place: where that is.

    Raises, from every method: StorageError when the database refuses (full, read-only, damaged).

    Example:
        from heddle.corpus.store import CorpusStore

        with CorpusStore.open("corpus") as store:
            print(store.stats().documents, store.embedder.dims)  # 3 384
            for passage in store.passages(store.vector_ids()):
                print(passage.chunk_id, passage.title)
                # 1 ferry
                # 2 library
                # 3 mill
    """

    def __init__(self, database: Database, place: CorpusPlace) -> None:
        self._database = database
        # Names the tables that were opened, which a restore replaces; "" = nothing names them.
        self.origin = database.origin
        self.place = place
        self.health = CorpusHealth(database)
        self.documents = Documents(database, self.health)
        self.runs = IndexingRuns(database)
        self.chunk_kv = ChunkKvLog(database, self.health)
        self.uploads = Uploads(database)
        self.vector_stores = VectorStores(database)
        self.attached_files = AttachedFiles(database)
        self.file_queue = FileQueue(database)
        self.vector_index = database.vector_index

    @classmethod
    def open(cls, where: Where, *, create: bool = False) -> "CorpusStore":
        """Open the corpus in a directory or at a URL; with `create`, make what is missing.

        Raises:
            InputError: there is no corpus here and `create` is False, or the path is a file.
            ConfigError: another Heddle wrote it, or the database lacks what Heddle needs.
            StorageError: the disk refuses, or the file is damaged or not a corpus.
        """
        place = CorpusPlace.of(where)
        return cls(backend_of(place).open_database(place, create=create), place)

    def within(self, answer_s: float) -> "CorpusStore":
        """Return the same corpus, for reads by who can't wait for a database that is silent.

        Both know the same damage. Close both.

        Args:
            answer_s: after how long without an answer reads raise Unreachable [s].
        """
        hurried = CorpusStore(self._database.within(answer_s), self.place)
        hurried.health.damage = self.health.damage
        return hurried

    @staticmethod
    def exists(where: Where) -> bool:
        """Whether a corpus has been made here."""
        place = CorpusPlace.of(where)
        return backend_of(place).has_corpus(place)

    @staticmethod
    def remove(where: Where) -> None:
        """Delete a closed corpus; what else is in its place stays."""
        place = CorpusPlace.of(where)
        backend_of(place).remove_corpus(place)

    def close(self) -> None:
        """Close the connections of all threads; closing twice is fine."""
        self._database.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What a search index reads

    @property
    def revision(self) -> int:
        """Grows by one with every committed change to what a search sees; 0 when new."""
        return self._database.revision()

    def ask_revision(self) -> Callable[[], int] | None:
        """Ask for `revision`, and don't wait; return what does; None = reading it is as quick."""
        return self._database.ask_revision()

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change`, from another thread, soon after other processes have committed.

        It is a hint, which may be missing or come twice: `revision` says what there is.
        """
        self._database.subscribe(on_change)

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
                "SELECT count(*) FROM (SELECT 1 FROM vectors WHERE revision > 0 LIMIT ?) AS first",
                (upto,),
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
                self.health.note_vectors(damaged)
                raise damage_error(self.place.name, damaged)
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
                "SELECT (SELECT count(*) FROM vectors WHERE revision > ?)"
                " + (SELECT count(*) FROM tombstones WHERE revision > ?)",
                (revision, revision),
            )
            return int(rows.fetchone()[0])

    def allowed(self, scope: SearchScope) -> NDArray[np.int64] | None:
        """Return the ids of the live chunks in a scope, [n] int64, ascending; None = all are.

        Raises: InputError: none fits what its `where` asks for.
        """
        if not self.is_limited(scope):  # whether there are others is asked with all rows in sight
            return None
        with self._database.read(scope.tenant) as connection:
            found = scope_query.chunk_ids(connection, scope)
        if scope.where and not len(found):
            raise InputError(f"{NO_PASSAGE} {scope}")
        return found

    def has_any(self, scope: SearchScope) -> bool:
        """Whether a search in this scope can find anything."""
        with self._database.read(scope.tenant) as connection:
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

        Raises: Cancelled: `is_cancelled` has become true.
        """
        found = self._database.best_by_words(text, limit, scope, is_cancelled)
        with self._database.read() as connection:
            dims = meta_table.dims(connection)
            batch, damaged = vector_table.read_chunks(connection, found, dims)
        self.health.note_vectors(damaged)
        return batch

    def has_deleted(self, chunk_ids: Sequence[int]) -> bool:
        """Whether any of these chunks was searchable once and is deleted."""
        with self._database.read() as connection:
            return vector_table.has_tombstone(connection, [int(chunk_id) for chunk_id in chunk_ids])

    def vector_ids(self) -> NDArray[np.int64]:
        """Return the chunks whose vectors `vectors()` gives, ascending. Shape: [n] int64."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT chunk_id FROM vectors WHERE revision > 0 ORDER BY chunk_id"
            )
            return np.fromiter((row[0] for row in rows), np.int64)

    def passages(self, chunk_ids: Sequence[int]) -> tuple[Passage, ...]:
        """Return the live chunks among these ids, in the order asked; others are left out.

        So are damaged ones, which `damage` and the log name.
        """
        asked = [int(chunk_id) for chunk_id in chunk_ids]
        with self._database.read() as connection:
            found, damaged = vector_table.read_passages(connection, asked)
        self.health.damage.note(damaged)
        return tuple(found)

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return how many of these chunks are known to be damaged, of those a tenant may see."""
        return self.health.damage.count_among(chunk_ids, tenant)

    @property
    def embedder(self) -> EmbedderStamp | None:
        """Which model the vectors come from; None while none is set."""
        with self._database.read() as connection:
            return meta_table.embedder(connection)

    def set_embedder(self, stamp: EmbedderStamp) -> None:
        """Say which model makes the vectors; once there are vectors, no other one can.

        Raises:
            ConfigError: another model made the vectors that are here, or its dims aren't positive.
        """
        if stamp.dims <= 0:
            raise ConfigError(f"the embedder {stamp.model!r} has {stamp.dims} dimensions")
        with self._database.write() as connection:
            stored = meta_table.embedder(connection)
            if stored == stamp:
                return
            if (
                stored is not None
                and meta_table.number(connection, "SELECT count(*) FROM vectors") > 0
            ):
                raise ConfigError(
                    f"{self.place} holds vectors of {_describe(stored)}, which"
                    f" {_describe(stamp)} can't search or add to; use that model, or {_REINDEX}"
                )
            meta_table.set_embedder(connection, stamp)

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
            self._check_vectors(ids, vectors, meta_table.embedder(connection))
            revision = meta_table.revision(connection)
            candidates = vector_table.store(connection, ids, vectors)
            if document_table.publish_complete(connection, candidates, revision + 1):
                revision += 1
                meta_table.write(connection, "revision", revision)
        self.health.check_damaged()
        return revision

    def stats(self) -> CorpusStats:
        """Count what is here."""
        with self._database.read() as connection:
            documents, chunks, vectors, pending, twins, outdated = connection.execute(
                "SELECT (SELECT count(*) FROM (SELECT DISTINCT tenant, id FROM documents) AS ids),"
                " (SELECT count(*) FROM chunks), (SELECT count(*) FROM vectors),"
                " (SELECT count(DISTINCT digest) + count(*) - count(digest) FROM chunks"
                "  WHERE embedded = 0),"
                " (SELECT count(*) FROM chunks WHERE same_as IS NOT NULL),"
                " (SELECT count(*) FROM documents WHERE status = 'live' AND chunking = '')"
            ).fetchone()
            size = self._database.bytes_on_disk
        return CorpusStats(documents, chunks, vectors, pending, size, twins, outdated)

    def _check_vectors(
        self, ids: Sequence[int], vectors: NDArray[np.float32], stamp: EmbedderStamp | None
    ) -> None:
        if stamp is None:
            raise ConfigError(f"{self.place}: no embedder is set; call set_embedder first")
        if vectors.shape != (len(ids), stamp.dims):
            raise ConfigError(
                f"vectors of shape {vectors.shape} for {len(ids)} chunks of {self.place},"
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
