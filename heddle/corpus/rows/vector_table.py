"""Chunks' vectors as rows. Every function runs inside the caller's transaction or read."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import StorageError
from heddle.core.passages import Passage, Place
from heddle.corpus.damage import DamagedChunk
from heddle.corpus.document import DocumentKey
from heddle.corpus.records import PendingChunk, VectorBatch
from heddle.corpus.rows import twins
from heddle.corpus.rows.checksums import chunk_checksum, is_sound, vector_checksum
from heddle.corpus.rows.chunk_check import CHECKED
from heddle.corpus.rows.connection import IDS, Connection, id_list

# Whether no equal chunk with a smaller id waits for the vector too.
_IS_FIRST = (
    "NOT EXISTS (SELECT 1 FROM chunks AS first WHERE first.digest = chunks.digest"
    " AND first.embedded = 0 AND first.chunk_id < chunks.chunk_id)"
)
BLOB_DTYPE = np.dtype("<f4")  # float32, little endian on every machine


def store(
    connection: Connection, chunk_ids: Sequence[int], vectors: NDArray[np.float32]
) -> tuple[int, ...]:
    """Store the vectors of chunks that have none, and of equal ones; return their versions.

    Ids that are unknown, deleted or have a vector are skipped, so a retry is harmless.
    """
    rows = connection.execute(
        f"SELECT chunk_id, version FROM chunks WHERE embedded = 0 AND chunk_id IN {IDS}",
        (id_list(chunk_ids),),
    )
    version_of = dict(rows.fetchall())
    row_of = {chunk_id: row for row, chunk_id in enumerate(chunk_ids) if chunk_id in version_of}
    connection.insert_rows(
        "vectors",
        "chunk_id, revision, vector, checksum",
        (_vector_row(chunk_id, vectors[row]) for chunk_id, row in row_of.items()),
    )
    connection.execute(
        f"UPDATE chunks SET embedded = 1 WHERE chunk_id IN {IDS}", (id_list(row_of),)
    )
    twins_of = twins.copy_vectors_from(connection, id_list(row_of))
    return tuple(sorted({*version_of.values(), *twins_of}))


def _vector_row(chunk_id: int, vector: NDArray[np.float32]) -> tuple[int, int, bytes, bytes]:
    blob = vector.astype(BLOB_DTYPE).tobytes()
    return chunk_id, 0, blob, vector_checksum(blob)


def read_batch(
    connection: Connection,
    after: tuple[int, int],
    upto_revision: int,
    rows: int,
    dims: int,
    *,
    number: int,
    of: int,
) -> tuple[VectorBatch, tuple[int, int], list[int]] | None:
    """Return the searchable vectors that follow `after` = (revision, chunk id), and the new end.

    Only those of chunks whose id leaves `number` when divided by `of`; last the chunks among them
    whose vectors are damaged. None when there are no more up to this revision.
    """
    found = connection.execute(
        "SELECT revision, chunk_id, vector, checksum FROM vectors"
        " WHERE (revision, chunk_id) > (?, ?) AND revision <= ? AND chunk_id % ? = ?"
        " ORDER BY revision, chunk_id LIMIT ?",
        (*after, upto_revision, of, number, rows),
    ).fetchall()
    if not found:
        return None
    sound = [row for row in found if is_sound(row[3], vector_checksum(row[2]))]
    damaged = [row[1] for row in found if row not in sound] if len(sound) < len(found) else []
    batch = _batch([row[1] for row in sound], [row[2] for row in sound], dims)
    return batch, (found[-1][0], found[-1][1]), damaged


def read_chunks(
    connection: Connection, chunk_ids: Sequence[int], dims: int
) -> tuple[VectorBatch, list[int]]:
    """Return the vectors of those of these chunks that have one, in the order asked.

    Those that are damaged are left out; their chunks are named beside.
    """
    rows = connection.execute(
        f"SELECT chunk_id, vector, checksum FROM vectors WHERE chunk_id IN {IDS}",
        (id_list(chunk_ids),),
    )
    blob_of, damaged = {}, []
    for chunk_id, vector, checksum in rows:
        if is_sound(checksum, vector_checksum(vector)):
            blob_of[chunk_id] = vector
        else:
            damaged.append(chunk_id)
    held = [chunk_id for chunk_id in chunk_ids if chunk_id in blob_of]
    return _batch(held, [blob_of[chunk_id] for chunk_id in held], dims), damaged


def read_pending(connection: Connection, limit: int, after: int) -> list[PendingChunk]:
    """Return chunks without a vector and with an id above `after`, in the order of their ids.

    Of equal chunks only the first: the others get its vector.
    """
    # Versions ascend with chunk ids, so the partial index on (version, chunk_id) serves both.
    rows = connection.execute(
        "SELECT chunk_id, title, text FROM chunks WHERE embedded = 0 AND chunk_id > ?"
        f" AND {_IS_FIRST}"
        " AND version >= coalesce("
        "  (SELECT version FROM chunks WHERE chunk_id <= ? ORDER BY chunk_id DESC LIMIT 1), 0)"
        " ORDER BY version, chunk_id LIMIT ?",
        (after, after, limit),
    )
    return [PendingChunk(*row) for row in rows]


def read_pending_of(connection: Connection, key: DocumentKey) -> list[PendingChunk]:
    """Return the chunks without a vector of one document, in the order of their ids."""
    rows = connection.execute(
        "SELECT chunk_id, chunks.title, text FROM chunks JOIN documents USING (version)"
        " WHERE tenant = ? AND id = ? AND embedded = 0 ORDER BY chunk_id",
        key,
    )
    return [PendingChunk(*row) for row in rows]


def read_passages(
    connection: Connection, chunk_ids: Sequence[int]
) -> tuple[list[Passage], list[DamagedChunk]]:
    """Return the live chunks among these ids, in the order asked, and those that are damaged."""
    rows = connection.execute(
        f"SELECT chunk_id, {CHECKED}, chunks.checksum, source, coalesce(nullif(file, ''), source),"
        " (SELECT count(*) FROM chunks AS twin WHERE twin.same_as = chunks.chunk_id)"
        " FROM chunks JOIN documents USING (version)"
        f" WHERE status = 'live' AND chunk_id IN {IDS}",
        (id_list(chunk_ids),),
    )
    found: dict[int, Passage] = {}
    damaged = []
    for chunk_id, *fields, checksum, source, file, copies in rows:
        if is_sound(checksum, chunk_checksum(*fields)):
            shown = (chunk_id, *fields, file, copies)
            found[chunk_id] = _passage(*shown)
        else:
            document_id, tenant = fields[:2]
            damaged.append(DamagedChunk(chunk_id, "text", document_id, tenant, source))
    return [found[chunk_id] for chunk_id in chunk_ids if chunk_id in found], damaged


def _passage(
    chunk_id: int,
    document_id: str,
    tenant: str,
    collection: str,
    position: int,
    title: str,
    text: str,
    start: int,
    end: int,
    page: int | None,
    heading: str,
    file: str,
    copies: int,
) -> Passage:
    place = Place(file, page, tuple(json.loads(heading)), start, end)
    return Passage(
        chunk_id, document_id, title, text, 0.0, position, tenant, collection, place, copies
    )


def preceding(connection: Connection, chunk_id: int) -> list[int]:
    """Return the chunk that precedes another in its document; none for the first."""
    row = connection.execute(
        "SELECT before.chunk_id FROM chunks JOIN chunks AS before USING (version)"
        " WHERE chunks.chunk_id = ? AND before.position = chunks.position - 1",
        (chunk_id,),
    ).fetchone()
    return [] if row is None else [row[0]]


def has_tombstone(connection: Connection, chunk_ids: Sequence[int]) -> bool:
    """Whether one of these chunks has been live and is deleted."""
    found = connection.execute(
        f"SELECT 1 FROM tombstones WHERE chunk_id IN {IDS} LIMIT 1", (id_list(chunk_ids),)
    )
    return found.fetchone() is not None


def _batch(chunk_ids: Sequence[int], blobs: Sequence[bytes], dims: int) -> VectorBatch:
    if any(len(blob) != dims * BLOB_DTYPE.itemsize for blob in blobs):
        raise StorageError(
            f"a stored vector has not {dims} dimensions: the corpus is damaged; move its directory"
            " away and index again"
        )
    # bytearray, not bytes: the array has to be writable for torch and faiss.
    flat = np.frombuffer(bytearray().join(blobs), dtype=BLOB_DTYPE).astype(np.float32, copy=False)
    return VectorBatch(np.array(chunk_ids, dtype=np.int64), flat.reshape(len(blobs), dims))
