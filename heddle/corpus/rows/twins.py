"""Equal chunks, or copies: embedded once, and found as one passage.

Every function runs inside the caller's transaction.

Chunks are equal if title, text, tenant and collection are. A vector is computed for one of them and
copied to the others. When a document becomes live, a chunk of it that equals one which a search
finds already becomes its *twin*: it gives up its vector, and a search finds the other one for both.
The metadata of the two documents must be the same, so that every filter passes both or neither.
When the chunk that is found goes, its first twin takes its place with a copy of the vector.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from heddle.corpus.rows.checksums import is_sound, vector_checksum
from heddle.corpus.rows.chunk_check import find_damaged
from heddle.corpus.rows.connection import IDS, Connection

DIGEST_BYTES = 16
COMMON_FROM: Final = 100  # documents that have a key and value
TRIED_MAX: Final = 16


def chunk_digest(tenant: str, collection: str, title: str, text: str) -> bytes:
    """Return what equal chunks have in common."""
    digest = sha256()
    for part in (tenant, collection, title, text):
        encoded = part.encode("utf-8")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.digest()[:DIGEST_BYTES]


def copy_vectors_to(connection: Connection, version: int) -> None:
    """Give the chunks of a version the vectors of equal chunks that have one."""
    rows = connection.execute(
        "SELECT mine.chunk_id, (SELECT other.chunk_id FROM chunks AS other"
        "  JOIN vectors ON vectors.chunk_id = other.chunk_id WHERE other.digest = mine.digest"
        "  ORDER BY other.chunk_id LIMIT 1)"
        " FROM chunks AS mine WHERE mine.version = ? AND mine.embedded = 0 ORDER BY mine.chunk_id",
        (version,),
    ).fetchall()
    pairs = []
    for taker, first in rows:
        giver = taker if first is None else _sound_giver(connection, first)
        if first is not None and _has_sound_vector(connection, giver):
            pairs.append((taker, giver))
    _copy_vectors(connection, pairs, revision=0)


def copy_vectors_from(connection: Connection, chunk_ids: str) -> tuple[int, ...]:
    """Copy new vectors to equal chunks that have none; return the versions of these.

    Args:
        connection: inside a write transaction.
        chunk_ids: those with new vectors, as a JSON list.
    """
    rows = connection.execute(
        "SELECT other.chunk_id, min(mine.chunk_id), other.version FROM chunks AS mine"
        " JOIN chunks AS other USING (digest)"
        f" WHERE mine.chunk_id IN {IDS} AND other.embedded = 0"
        " GROUP BY other.chunk_id",
        (chunk_ids,),
    ).fetchall()
    _copy_vectors(connection, [row[:2] for row in rows], revision=0)
    return tuple(sorted({row[2] for row in rows}))


def merge(connection: Connection, version: int) -> None:
    """Make the chunks of a version twins of equal chunks that a search finds, or of each other."""
    rows = connection.execute(
        "SELECT chunk_id, digest FROM chunks WHERE version = ? AND digest IS NOT NULL"
        " ORDER BY chunk_id",
        (version,),
    ).fetchall()
    shared = _found_digests(connection, version)
    equals = _EqualMetadata(connection, version)
    found_for: dict[bytes, int] = {}
    twins = []
    for chunk_id, digest in rows:
        found = found_for.get(digest)
        if found is None and digest in shared:
            found = equals.found(digest)
        if found is not None:
            twins.append((found, chunk_id))
        found_for[digest] = found or chunk_id
    connection.executemany("UPDATE chunks SET same_as = ? WHERE chunk_id = ?", twins)
    connection.executemany("DELETE FROM vectors WHERE chunk_id = ?", ((twin,) for _, twin in twins))


def hand_over(connection: Connection, version: int, revision: int) -> None:
    """Let the first twin elsewhere take the place of each chunk of a version that has twins."""
    heirs = connection.execute(
        "SELECT min(chunk_id), same_as FROM chunks WHERE version <> ?"
        " AND same_as IN (SELECT chunk_id FROM chunks WHERE version = ?) GROUP BY same_as",
        (version, version),
    ).fetchall()
    _succeed(connection, heirs, "version <> ?", version, revision)


def separate(connection: Connection, version: int, revision: int) -> None:
    """Let a live version have no twins elsewhere and be none: its metadata is about to change."""
    hand_over(connection, version, revision)
    heirs = connection.execute(
        "SELECT min(chunk_id), same_as FROM chunks WHERE version = ? AND same_as IS NOT NULL"
        " AND same_as NOT IN (SELECT chunk_id FROM chunks WHERE version = ?) GROUP BY same_as",
        (version, version),
    ).fetchall()
    _succeed(connection, heirs, "version = ?", version, revision)


def _succeed(
    connection: Connection,
    heirs: Sequence[tuple[int, int]],
    taken_along: str,
    version: int,
    revision: int,
) -> None:
    """Let twins be found, each with the other twins in some versions as its own.

    Args:
        connection: inside a write transaction.
        heirs: the twins, each with the chunk that is found for it so far.
        taken_along: which versions' twins, as a condition with a place for `version`.
        version: the version in it.
        revision: what the vectors carry.
    """
    givers = ((heir, _sound_giver(connection, found)) for heir, found in heirs)
    _copy_vectors(connection, givers, revision)
    # The heir is a twin of its own for a moment, so that its version's other rows stay as they are.
    connection.executemany(
        f"UPDATE chunks SET same_as = ? WHERE same_as = ? AND {taken_along}",
        ((heir, before, version) for heir, before in heirs),
    )
    connection.executemany(
        "UPDATE chunks SET same_as = NULL WHERE chunk_id = ?", ((heir,) for heir, _ in heirs)
    )


def _found_digests(connection: Connection, version: int) -> set[bytes]:
    """Return the digests of a version's chunks that equal chunks of other live documents have."""
    rows = connection.execute(
        "SELECT DISTINCT mine.digest FROM chunks AS mine WHERE mine.version = ? AND EXISTS"
        " (SELECT 1 FROM chunks AS other JOIN documents ON documents.version = other.version"
        "  WHERE other.digest = mine.digest AND other.version <> ? AND status = 'live'"
        "  AND other.same_as IS NULL)",
        (version, version),
    )
    return {bytes(row[0]) for row in rows}


class _EqualMetadata:
    """Finds equal chunks in live documents with the metadata of a version.

    Thousands of documents may share a chunk, each with metadata of its own. So the look-up begins
    at the pair of the version's metadata that the fewest have; at the chunk, where all are common.

    Args:
        connection: inside a write transaction.
        version: whose metadata it is.
    """

    def __init__(self, connection: Connection, version: int) -> None:
        self._connection, self._version = connection, version
        self._pairs = [(str(key), str(value)) for key, value in _metadata(connection, version)]
        counts = [(_count_having(connection, pair), pair) for pair in self._pairs]
        fewest, pair = min(counts, default=(COMMON_FROM, ()))
        self._rarest: tuple[str, ...] = pair if fewest < COMMON_FROM else ()

    def found(self, digest: bytes) -> int | None:
        """Return the first chunk that a search finds and that isn't damaged; None = there is none.

        Of more than `TRIED_MAX` damaged ones in a row the others aren't looked at.
        """
        begin, narrowed = "chunks", ""
        if self._rarest:
            # CROSS JOIN: SQLite keeps the order, and so begins with the few.
            begin = "attributes AS rare CROSS JOIN chunks"
            narrowed = "chunks.version = rare.version AND rare.key = ? AND rare.value = ? AND "
        rows = self._connection.execute(
            f"SELECT chunk_id FROM {begin} JOIN documents ON documents.version = chunks.version"
            f" WHERE {narrowed}digest = ? AND documents.version <> ? AND status = 'live'"
            " AND same_as IS NULL"
            " AND (SELECT count(*) FROM attributes WHERE version = documents.version) = ?"
            " AND NOT EXISTS (SELECT 1 FROM attributes AS mine WHERE mine.version = ?"
            "  AND NOT EXISTS (SELECT 1 FROM attributes AS other WHERE other.key = mine.key"
            "   AND other.value = mine.value AND other.version = documents.version))"
            " ORDER BY chunk_id LIMIT ?",
            (*self._rarest, digest, self._version, len(self._pairs), self._version, TRIED_MAX),
        ).fetchall()
        return next(
            (one for (one,) in rows if not find_damaged(self._connection, "chunk_id = ?", (one,))),
            None,
        )


def _count_having(connection: Connection, pair: Sequence[str]) -> int:
    """Return how many versions have a key and value, up to `COMMON_FROM`."""
    row = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM attributes WHERE key = ? AND value = ? LIMIT ?)"
        " AS first",
        (*pair, COMMON_FROM),
    ).fetchone()
    return int(row[0])


def _metadata(connection: Connection, version: int) -> list[tuple[str, str]]:
    return connection.execute(
        "SELECT key, value FROM attributes WHERE version = ? ORDER BY key, value", (version,)
    ).fetchall()


def _sound_giver(connection: Connection, chunk_id: int) -> int:
    """Return a chunk, or an equal one with a vector where its own is damaged or gone."""
    if _has_sound_vector(connection, chunk_id):
        return chunk_id
    rows = connection.execute(
        "SELECT other.chunk_id FROM chunks AS mine JOIN chunks AS other USING (digest)"
        " JOIN vectors ON vectors.chunk_id = other.chunk_id WHERE mine.chunk_id = ?"
        " ORDER BY other.chunk_id",
        (chunk_id,),
    ).fetchall()
    return next((row[0] for row in rows if _has_sound_vector(connection, row[0])), chunk_id)


def _has_sound_vector(connection: Connection, chunk_id: int) -> bool:
    row = connection.execute(
        "SELECT vector, checksum FROM vectors WHERE chunk_id = ?", (chunk_id,)
    ).fetchone()
    return row is not None and is_sound(row[1], vector_checksum(row[0]))


def _copy_vectors(connection: Connection, pairs: Iterable[tuple[int, int]], revision: int) -> None:
    """Copy vectors; each pair is who gets one and whose it is."""
    rows = list(pairs)
    connection.executemany(
        "INSERT INTO vectors (chunk_id, revision, vector, checksum)"
        " SELECT CAST(? AS BIGINT), CAST(? AS BIGINT), vector, checksum FROM vectors"
        " WHERE chunk_id = ?",
        ((taker, revision, giver) for taker, giver in rows),
    )
    connection.executemany(
        "UPDATE chunks SET embedded = 1 WHERE chunk_id = ?", ((taker,) for taker, _ in rows)
    )
