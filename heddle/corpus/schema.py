"""The tables of a corpus, and how a file is recognised as one. (DESIGN §7)

A document is stored in versions: at most one is `live` (searchable) and at most one `pending`
(some of its chunks still have no vector). Vectors have a table of their own, so that reading a
passage never reads a vector, and storing a vector never moves a text. `vectors.revision` is 0
until the document is live.
"""

import sqlite3
from pathlib import Path

from heddle.core.errors import ConfigError, InputError, StorageError

VERSION = 1
APPLICATION_ID = 0x48444C43  # "HDLC", in the header of the file
PAGE_BYTES = 8192  # five 384-dimensional vectors a page: 6 % unused; 4096 would leave 25 %

_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('revision', 0), ('scan', 0)",
    """CREATE TABLE sources (
        name TEXT PRIMARY KEY,
        sha256 TEXT NOT NULL,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE documents (
        version INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        source TEXT NOT NULL,
        title TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        collection TEXT NOT NULL,
        tenant TEXT NOT NULL,
        scan INTEGER NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('pending', 'live')),
        UNIQUE (id, status)
    )""",
    "CREATE INDEX documents_source ON documents (source)",
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
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)


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


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None
