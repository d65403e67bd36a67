"""The tables of a corpus, and how a file is recognised as one.

(docs/design/architecture.md#what-lasts) A document is stored in versions: at most one is `live`
(searchable) and at most one `pending` (some of its chunks still have no vector). Ids are unique
within a tenant. Vectors have a table of their own, so that reading a passage never reads a
vector, and storing a vector never moves a text. `vectors.revision` is 0 until the document is live.
`words` indexes the texts of chunks for BM25 (SQLite's FTS5); it holds no copy of them, and triggers
keep it in step.
"""

import logging
import sqlite3
from pathlib import Path

from heddle.core.errors import ConfigError, InputError, StorageError
from heddle.corpus.rows.twins import chunk_digest

log = logging.getLogger(__name__)

VERSION = 6
APPLICATION_ID = 0x48444C43  # "HDLC", in the header of the file
PAGE_BYTES = 8192  # five 384-dimensional vectors a page: 6 % unused; 4096 would leave 25 %

_DOCUMENTS = """CREATE TABLE {name} (
        version INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        source TEXT NOT NULL,
        title TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        collection TEXT NOT NULL,
        tenant TEXT NOT NULL,
        scan INTEGER NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('pending', 'live')),
        UNIQUE (tenant, id, status)
    )"""
_DOCUMENTS_SOURCE = "CREATE INDEX documents_source ON documents (source)"
_FOR_FILTERS = (
    """CREATE TABLE attributes (
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        version INTEGER NOT NULL REFERENCES documents (version) ON DELETE CASCADE,
        PRIMARY KEY (key, value, version)
    ) WITHOUT ROWID""",
    "CREATE INDEX attributes_version ON attributes (version)",
)
_FOR_WORDS = (
    """CREATE VIRTUAL TABLE words USING fts5 (
        title, text, content = 'chunks', content_rowid = 'chunk_id', tokenize = 'porter unicode61'
    )""",
    """CREATE TRIGGER words_added AFTER INSERT ON chunks BEGIN
        INSERT INTO words (rowid, title, text) VALUES (new.chunk_id, new.title, new.text);
    END""",
    """CREATE TRIGGER words_removed AFTER DELETE ON chunks BEGIN
        INSERT INTO words (words, rowid, title, text)
            VALUES ('delete', old.chunk_id, old.title, old.text);
    END""",
)
# Where a chunk stands in its document; `stop` = 0 where an older Heddle did not note it.
_FOR_PLACES = (
    "ALTER TABLE documents ADD COLUMN file TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE chunks ADD COLUMN start INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE chunks ADD COLUMN stop INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE chunks ADD COLUMN page INTEGER",
    "ALTER TABLE chunks ADD COLUMN heading TEXT NOT NULL DEFAULT '[]'",  # JSON
)
# How a text was cut ("" = by an older Heddle), and which chunks are equal. (twins.py)
_FOR_TWINS = (
    "ALTER TABLE documents ADD COLUMN chunking TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE sources ADD COLUMN chunking TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE chunks ADD COLUMN digest BLOB",
    "ALTER TABLE chunks ADD COLUMN same_as INTEGER",
    "CREATE INDEX chunks_digest ON chunks (digest) WHERE digest IS NOT NULL",
    "CREATE INDEX chunks_same_as ON chunks (same_as) WHERE same_as IS NOT NULL",
)
# They tell damage. An older Heddle noted none: NULL. (checksums.py)
_FOR_CHECKSUMS = (
    "ALTER TABLE chunks ADD COLUMN checksum BLOB",
    "ALTER TABLE vectors ADD COLUMN checksum BLOB",
)
# Files that clients have sent, and the vector stores that they are in. `number` orders them.
_FOR_VECTOR_STORES = (
    """CREATE TABLE uploads (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        purpose TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        created_s INTEGER NOT NULL
    )""",
    "CREATE INDEX uploads_tenant ON uploads (tenant, number)",
    """CREATE TABLE upload_contents (
        number INTEGER PRIMARY KEY REFERENCES uploads (number) ON DELETE CASCADE,
        content BLOB NOT NULL
    )""",
    """CREATE TABLE vector_stores (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_s INTEGER NOT NULL,
        changed_s INTEGER NOT NULL
    )""",
    "CREATE INDEX vector_stores_tenant ON vector_stores (tenant, number)",
    """CREATE TABLE store_files (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        store_id TEXT NOT NULL REFERENCES vector_stores (id) ON DELETE CASCADE,
        file_id TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
        created_s INTEGER NOT NULL,
        attributes TEXT NOT NULL,
        state TEXT NOT NULL,
        failure_kind TEXT NOT NULL DEFAULT '',
        failure TEXT NOT NULL DEFAULT '',
        attempts INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        UNIQUE (store_id, file_id)
    )""",
    "CREATE INDEX store_files_file ON store_files (file_id)",
    "CREATE INDEX store_files_waiting ON store_files (number) WHERE state = 'in_progress'",
    """CREATE TABLE file_batches (
        id TEXT PRIMARY KEY,
        store_id TEXT NOT NULL REFERENCES vector_stores (id) ON DELETE CASCADE,
        created_s INTEGER NOT NULL,
        is_cancelled INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID""",
    "CREATE INDEX file_batches_store ON file_batches (store_id)",
    """CREATE TABLE batch_files (
        batch_id TEXT NOT NULL REFERENCES file_batches (id) ON DELETE CASCADE,
        number INTEGER NOT NULL REFERENCES store_files (number) ON DELETE CASCADE,
        PRIMARY KEY (batch_id, number)
    ) WITHOUT ROWID""",
    "CREATE INDEX batch_files_number ON batch_files (number)",
)
_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('revision', 0), ('scan', 0)",
    """CREATE TABLE sources (
        name TEXT PRIMARY KEY,
        sha256 TEXT NOT NULL,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL
    ) WITHOUT ROWID""",
    _DOCUMENTS.format(name="documents"),
    _DOCUMENTS_SOURCE,
    """CREATE TABLE chunks (
        chunk_id INTEGER PRIMARY KEY AUTOINCREMENT,
        version INTEGER NOT NULL REFERENCES documents (version) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        title TEXT NOT NULL,
        text TEXT NOT NULL,
        embedded INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX chunks_version ON chunks (version)",
    "CREATE INDEX chunks_pending ON chunks (version, chunk_id) WHERE embedded = 0",
    """CREATE TABLE vectors (
        chunk_id INTEGER PRIMARY KEY REFERENCES chunks (chunk_id) ON DELETE CASCADE,
        revision INTEGER NOT NULL,
        vector BLOB NOT NULL
    )""",
    "CREATE INDEX vectors_revision ON vectors (revision, chunk_id)",
    "CREATE TABLE tombstones (chunk_id INTEGER PRIMARY KEY, revision INTEGER NOT NULL)",
    "CREATE INDEX tombstones_revision ON tombstones (revision, chunk_id)",
    *_FOR_FILTERS,
    *_FOR_WORDS,
    *_FOR_PLACES,
    *_FOR_TWINS,
    *_FOR_CHECKSUMS,
    *_FOR_VECTOR_STORES,
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)
# Version 1 had ids that were unique over all tenants, and neither metadata nor words.
_FROM_1 = (
    _DOCUMENTS.format(name="documents_2"),
    "INSERT INTO documents_2 SELECT * FROM documents",
    """UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'documents')
        WHERE name = 'documents_2'""",
    "DROP TABLE documents",
    "ALTER TABLE documents_2 RENAME TO documents",
    _DOCUMENTS_SOURCE,
    *_FOR_FILTERS,
    *_FOR_WORDS,
    "INSERT INTO words (words) VALUES ('rebuild')",
    # Their tenants and metadata weren't read: the next `heddle index` takes them as changed.
    """UPDATE sources SET sha256 = '', size = -1
        WHERE name LIKE '%.jsonl' OR name LIKE '%.ndjson' OR name LIKE '%.ndjson.gz'
        OR name LIKE '%.jsonl.gz'""",
)
# Version 2 knew a chunk's text and position, and not where it stood; version 3 knew no twins.
# Version 4 had no checksums, and version 5 no vector stores.
_UPGRADES = {
    1: _FROM_1,
    2: _FOR_PLACES,
    3: _FOR_TWINS,
    4: _FOR_CHECKSUMS,
    5: _FOR_VECTOR_STORES,
}


def no_corpus(directory: Path) -> InputError:
    """Return the error for a directory without a corpus."""
    return InputError(
        f"{directory}: no corpus here; make one with: heddle index PATH... --into {directory}"
    )


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, unless another process has done so; runs inside a write transaction."""
    if _pragma(connection, "user_version") == 0 and not _has_tables(connection):
        for statement in _TABLES:
            connection.execute(statement)


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse what is not a corpus, or one that a newer Heddle wrote.

    Raises:
        InputError: the file is empty: its making was stopped before it began.
        StorageError: it is somebody else's database.
        ConfigError: its version is not one that this Heddle reads.
    """
    version = _pragma(connection, "user_version")
    if version == 0 and not _has_tables(connection):
        raise no_corpus(path.parent)
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise StorageError(f"{path}: this database is not a Heddle corpus; name another directory")
    if version > VERSION:
        raise ConfigError(
            f"{path}: written by a newer Heddle (corpus version {version}, this one reads"
            f" {VERSION}); upgrade Heddle, or index again into another directory"
        )


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables of an older Heddle up to this one's: all of it or nothing.

    Raises: sqlite3.Error: the disk refuses.
    """
    if _pragma(connection, "user_version") == VERSION:
        return
    # A table is replaced while others refer to it; the switch has no effect in a transaction.
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        connection.execute("BEGIN IMMEDIATE")
        before = _pragma(connection, "user_version")
        if before < VERSION:  # no other process was quicker
            log.info("%s: made by an older Heddle; its tables are brought up to date", path)
        for version in range(before, VERSION):
            for statement in _UPGRADES[version]:
                connection.execute(statement)
        _fill_digests(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA foreign_keys = ON")


def _fill_digests(connection: sqlite3.Connection) -> None:
    """Compute the digests of chunks that an older Heddle stored."""
    connection.create_function("chunk_digest", 4, chunk_digest, deterministic=True)
    connection.execute(
        "UPDATE chunks SET digest = (SELECT chunk_digest(tenant, collection, chunks.title, text)"
        " FROM documents WHERE documents.version = chunks.version) WHERE digest IS NULL"
    )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
