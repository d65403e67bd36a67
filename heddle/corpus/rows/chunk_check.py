"""Which stored chunks differ from what was written."""

from collections.abc import Iterator
from typing import Final

from heddle.corpus.damage import DamagedChunk
from heddle.corpus.rows.checksums import chunk_checksum, is_sound, vector_checksum
from heddle.corpus.rows.connection import Connection

# A chunk's fields in the order of its checksum.
CHECKED: Final = "id, tenant, collection, position, chunks.title, text, start, stop, page, heading"
BATCH_ROWS: Final = 1024


def all_damaged(connection: Connection) -> Iterator[DamagedChunk]:
    """Give every damaged chunk, by ascending id; reads all chunks and vectors.

    A statement reads `BATCH_ROWS` of them: PostgreSQL's client holds all that a statement gives.
    """
    last = 0
    while True:
        batch = connection.execute(
            "SELECT max(chunk_id) FROM"
            " (SELECT chunk_id FROM chunks WHERE chunk_id > ? ORDER BY chunk_id LIMIT ?) AS batch",
            (last, BATCH_ROWS),
        )
        end = batch.fetchone()[0]
        if end is None:
            return
        yield from find_damaged(connection, "chunk_id > ? AND chunk_id <= ?", (last, end))
        last = end


def find_damaged(
    connection: Connection, condition: str, values: tuple[object, ...] = ()
) -> list[DamagedChunk]:
    """Return the damaged chunks among those that fulfil a condition, by ascending id.

    A chunk is damaged where its fields or its vector differ from their checksum, and where the
    vector is gone.
    """
    rows = connection.execute(
        f"SELECT chunk_id, source, {CHECKED}, chunks.checksum, vector, vectors.checksum,"
        " vector IS NULL AND embedded = 1 AND same_as IS NULL"
        " FROM chunks JOIN documents USING (version) LEFT JOIN vectors USING (chunk_id)"
        f" WHERE {condition} ORDER BY chunk_id",
        values,
    )
    damaged = []
    for chunk_id, source, *fields, checksum, vector, vector_sum, is_lost in rows:
        part = ""
        if not is_sound(checksum, chunk_checksum(*fields)):
            part = "text"
        elif is_lost or (vector is not None and not is_sound(vector_sum, vector_checksum(vector))):
            part = "vector"
        if part:
            document_id, tenant = fields[:2]
            damaged.append(DamagedChunk(chunk_id, part, document_id, tenant, source))
    return damaged
