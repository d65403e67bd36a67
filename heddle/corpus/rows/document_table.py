"""Documents and their chunks as rows. Every function runs inside the caller's transaction."""

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heddle.core.errors import InputError
from heddle.core.search_scope import Metadata
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document, DocumentKey
from heddle.corpus.records import PutOutcome
from heddle.corpus.rows import meta_table, twins
from heddle.corpus.rows.checksums import chunk_checksum
from heddle.corpus.rows.chunk_check import all_damaged, find_damaged
from heddle.corpus.rows.connection import Connection
from heddle.corpus.rows.twins import chunk_digest

log = logging.getLogger(__name__)
_OVER_OLDER = " ON CONFLICT (chunk_id) DO UPDATE SET revision = excluded.revision"


@dataclass(frozen=True, slots=True)
class Version:
    """One stored version of a document."""

    version: int
    sha256: str
    source: str
    file: str
    scan: int
    is_live: bool
    collection: str
    chunking: str

    def says(self, sha256: str, collection: str, chunking: str) -> bool:
        """Whether it is a text in a collection, cut in this way."""
        return (self.sha256, self.collection, self.chunking) == (sha256, collection, chunking)

    def is_in(self, document: Document) -> bool:
        """Whether it comes from the place that a document names."""
        return (self.source, self.file) == (document.source, document.file)


def versions(connection: Connection, key: DocumentKey) -> tuple[Version, ...]:
    """Return the versions of a document, the newest first: pending before live."""
    rows = connection.execute(
        "SELECT version, sha256, source, file, scan, status, collection, chunking FROM documents"
        " WHERE tenant = ? AND id = ? ORDER BY version DESC",
        key,
    )
    return tuple(
        Version(version, sha256, source, file, scan, status == "live", collection, chunking)
        for version, sha256, source, file, scan, status, collection, chunking in rows
    )


def put(
    connection: Connection,
    document: Document,
    chunks: Sequence[TextChunk],
    *,
    scan: int,
    chunking: str,
    revision: int,
) -> tuple[PutOutcome, int | None]:
    """Store a document as a pending version, unless its text is what is stored already.

    A stored version with damaged chunks counts as another text and is replaced. Returns what was
    done, and the new version; its chunks have the vectors of equal chunks.

    A pending version that it replaces was never searchable and just goes. If the text is back
    to the live version's, the pending one goes. Metadata and the file are replaced at once. In
    another collection the same text is a new version with chunks of its own: KV that was computed
    within the former collection goes with the old ones. So has a text that is cut in another way.

    Args:
        connection: inside a write transaction.
        document: what is stored.
        chunks: its pieces.
        scan: the number of the indexing run, 0 = none.
        chunking: how it was cut.
        revision: what vectors carry that become searchable because metadata changes; the corpus
            has it afterwards where a document that can be found comes from another file.
    """
    stored = versions(connection, document.key)
    if stored:
        _check_owner(connection, document, stored, scan)
        if scan:  # a later run may be ahead, and deletes documents of the file that it has not seen
            scan = max(scan, *(version.scan for version in stored))
        if any(version.is_live and not version.is_in(document) for version in stored):
            meta_table.write(connection, "revision", revision)  # a search now names another file
        connection.execute(
            "UPDATE documents SET scan = ?, source = ?, file = ? WHERE tenant = ? AND id = ?",
            (scan, document.source, document.file, *document.key),
        )
    sha256, collection = document.sha256, document.collection
    broken = _set_damaged_aside(connection, stored, revision)
    stored = tuple(version for version in stored if version.is_live or version not in broken)
    kept = tuple(version for version in stored if version not in broken)
    if kept and kept[0].says(sha256, collection, chunking):
        is_news = _describe(connection, kept[0], document, revision)
        return (PutOutcome.DESCRIBED if is_news else PutOutcome.UNCHANGED), None
    for version in stored:
        if not version.is_live:
            _remove_rows(connection, version.version)
    if any(version.is_live and version.says(sha256, collection, chunking) for version in kept):
        is_news = _describe(connection, kept[-1], document, revision)
        return (PutOutcome.DESCRIBED if is_news else PutOutcome.CHANGED), None
    new = _insert(connection, document, chunks, scan, chunking)
    twins.copy_vectors_to(connection, new)
    return (PutOutcome.CHANGED if stored else PutOutcome.ADDED), new


def delete(connection: Connection, keys: Iterable[DocumentKey], revision: int) -> int:
    """Delete all versions of documents; return how many live chunks got a tombstone.

    Args:
        connection: inside a write transaction.
        keys: documents; unknown ones are ignored.
        revision: what the tombstones carry.
    """
    return sum(
        _delete_version(connection, version.version, revision)
        for key in keys
        for version in versions(connection, key)
    )


def publish_complete(connection: Connection, candidates: Iterable[int], revision: int) -> int:
    """Make those pending versions live whose chunks all have a vector; return how many.

    The version that each replaces gets its tombstones here, so a search sees the old one or the
    new one, whole.
    """
    published = 0
    for version in candidates:
        missing = connection.execute(
            "SELECT 1 FROM chunks WHERE version = ? AND embedded = 0 LIMIT 1", (version,)
        )
        if missing.fetchone() is None:
            _publish(connection, version, revision)
            published += 1
    return published


def keys_of_source(
    connection: Connection, source: str, scan_before: int
) -> tuple[DocumentKey, ...]:
    """Return the documents of a source that no scan from `scan_before` on has seen.

    The newest come first: as they are deleted in this order, no chunk hands over to a twin that
    goes next.
    """
    rows = connection.execute(
        "SELECT tenant, id FROM documents WHERE source = ? AND scan < ?"
        " GROUP BY tenant, id ORDER BY max(version) DESC",
        (source, scan_before),
    )
    return tuple((tenant, document_id) for tenant, document_id in rows)


def damaged_sources(connection: Connection) -> set[str]:
    """Return the files that brought documents with damaged chunks; reads every chunk."""
    return {chunk.source for chunk in all_damaged(connection)}


def _set_damaged_aside(
    connection: Connection, stored: Sequence[Version], revision: int
) -> tuple[Version, ...]:
    """Return the versions with damaged chunks, each on its way out.

    A live one is found until another replaces it, but for its damaged vectors, which go. So an
    index can be built meanwhile. A pending one goes.
    """
    broken = []
    for version in stored:
        damaged = find_damaged(connection, "version = ?", (version.version,))
        if not damaged:
            continue
        broken.append(version)
        log.warning("%s: the document is stored anew", damaged[0])
        if not version.is_live:
            _remove_rows(connection, version.version)
            continue
        lost = [chunk.chunk_id for chunk in damaged if chunk.part == "vector"]
        connection.executemany("DELETE FROM vectors WHERE chunk_id = ?", ((one,) for one in lost))
        connection.executemany(
            "INSERT INTO tombstones (chunk_id, revision) VALUES (?, ?)" + _OVER_OLDER,
            ((one, revision) for one in lost),
        )
    return tuple(broken)


def _remove_rows(connection: Connection, version: int) -> None:
    """Delete a version's rows.

    The index of words takes a text out by its words. With a damaged text that would leave wrong
    entries, so that index is made anew.
    """
    damaged = find_damaged(connection, "version = ?", (version,))
    has_other_words = any(chunk.part == "text" for chunk in damaged)
    if has_other_words:
        connection.execute("UPDATE chunks SET title = '', text = '' WHERE version = ?", (version,))
    connection.execute("DELETE FROM documents WHERE version = ?", (version,))
    if has_other_words:
        connection.rebuild_words()


def _check_owner(
    connection: Connection, document: Document, stored: Sequence[Version], scan: int
) -> None:
    """Refuse an id that another line or file holds; one that is forgotten holds none."""
    if scan == 0:
        return
    if any(version.scan == scan for version in stored):
        where = "twice in this file" if stored[0].source == document.source else stored[0].source
        raise InputError(f"the id {document.id!r} is not unique: {where}; give each its own id")
    other = stored[0].source
    if other != document.source and _is_source(connection, other):
        raise InputError(
            f"the id {document.id!r} is not unique: {other} has it too; give each its own id"
        )


def _is_source(connection: Connection, name: str) -> bool:
    """Whether a file has a claim on ids: one that is about to be read has none, by its size."""
    row = connection.execute(
        "SELECT 1 FROM sources WHERE name = ? AND size >= 0", (name,)
    ).fetchone()
    return row is not None


def _insert(
    connection: Connection,
    document: Document,
    chunks: Sequence[TextChunk],
    scan: int,
    chunking: str,
) -> int:
    if not chunks:
        raise InputError(f"the document {document.id!r} has no text")
    try:
        return _insert_rows(connection, document, chunks, scan, chunking)
    except UnicodeEncodeError as error:
        raise InputError(f"the document {document.id!r} holds half a character: {error}") from error


def _insert_rows(
    connection: Connection,
    document: Document,
    chunks: Sequence[TextChunk],
    scan: int,
    chunking: str,
) -> int:
    inserted = connection.execute(
        "INSERT INTO documents (id, source, file, title, sha256, collection, tenant, scan,"
        " chunking, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending') RETURNING version",
        (
            document.id,
            document.source,
            document.file,
            document.title,
            document.sha256,
            document.collection,
            document.tenant,
            scan,
            chunking,
        ),
    )
    version = int(inserted.fetchall()[0][0])
    _insert_metadata(connection, version, document.metadata)
    connection.insert_rows(
        "chunks",
        "version, position, title, text, start, stop, page, heading, digest, checksum",
        (_chunk_row(version, chunk, document) for chunk in chunks),
    )
    connection.index_words(version, ((chunk.position, chunk.title, chunk.text) for chunk in chunks))
    return version


def _chunk_row(version: int, chunk: TextChunk, document: Document) -> tuple[object, ...]:
    heading = json.dumps(chunk.heading, ensure_ascii=False)
    digest = chunk_digest(document.tenant, document.collection, chunk.title, chunk.text)
    shown = (chunk.position, chunk.title, chunk.text, chunk.start, chunk.end, chunk.page, heading)
    owner = (document.id, document.tenant, document.collection)
    return (version, *shown, digest, chunk_checksum(*owner, *shown))


def _describe(connection: Connection, stored: Version, document: Document, revision: int) -> bool:
    """Give a stored version the document's metadata; return whether it is news."""
    version = stored.version
    rows = connection.execute(
        "SELECT key, value FROM attributes WHERE version = ? ORDER BY key, value", (version,)
    ).fetchall()
    if tuple(rows) == document.metadata:
        return False
    if stored.is_live:
        twins.separate(connection, version, revision)
    connection.execute("DELETE FROM attributes WHERE version = ?", (version,))
    _insert_metadata(connection, version, document.metadata)
    return True


def _insert_metadata(connection: Connection, version: int, metadata: Metadata) -> None:
    connection.executemany(
        "INSERT INTO attributes (key, value, version) VALUES (?, ?, ?)",
        ((key, value, version) for key, value in metadata),
    )


def _publish(connection: Connection, version: int, revision: int) -> None:
    old = connection.execute(
        "SELECT version FROM documents WHERE status = 'live'"
        " AND (tenant, id) = (SELECT tenant, id FROM documents WHERE version = ?)",
        (version,),
    ).fetchone()
    if old is not None:
        _delete_version(connection, old[0], revision)
    connection.execute("UPDATE documents SET status = 'live' WHERE version = ?", (version,))
    twins.merge(connection, version)
    connection.execute(
        "UPDATE vectors SET revision = ?"
        " WHERE chunk_id IN (SELECT chunk_id FROM chunks WHERE version = ?)",
        (revision, version),
    )


def _delete_version(connection: Connection, version: int, revision: int) -> int:
    twins.hand_over(connection, version, revision)
    cursor = connection.execute(
        "INSERT INTO tombstones (chunk_id, revision) SELECT chunk_id, CAST(? AS BIGINT) FROM chunks"
        " JOIN documents USING (version) WHERE version = ? AND status = 'live'" + _OVER_OLDER,
        (revision, version),
    )
    _remove_rows(connection, version)
    return cursor.rowcount
