"""A corpus in a directory: its SQLite file. (docs/design/architecture.md#what-lasts)"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from heddle.core.errors import Cancelled, InputError, InternalError, StorageError
from heddle.core.own_files import OWNER_ONLY
from heddle.core.search_scope import SearchScope
from heddle.corpus.place import CorpusPlace
from heddle.corpus.rows import meta_table
from heddle.corpus.sqlite import schema, word_search
from heddle.corpus.sqlite.folder_lock import FileClaim, locked
from heddle.corpus.sqlite.sole_use import end_log, remove_file
from heddle.corpus.sqlite.storage_errors import storage_errors

FILE_NAME = "corpus.sqlite"
FILE_MODE = 0o600
# What SQLite says where a write-ahead log is missing and can't be made.
NO_LOG = ("SQLITE_CANTOPEN", "SQLITE_READONLY")
BUSY_TIMEOUT_S = 30.0
CACHE_KIB = 16 * 1024
WAL_BYTES_MAX = 64 * 2**20
PROBLEMS_MAX: Final = 20  # SQLite's own that are named


def open_database(place: CorpusPlace, *, create: bool) -> "Database":
    """Open the file of a corpus directory; with `create`, make what is missing.

    Raises:
        InputError: there is no corpus and `create` is False, or the path is a file.
        ConfigError: a newer Heddle wrote it.
        StorageError: the disk refuses, or the file is damaged or not ours.
    """
    return Database.open(Path(place.url), create=create)


def has_corpus(place: CorpusPlace) -> bool:
    """Whether a corpus has been made in a directory."""
    return (Path(place.url) / FILE_NAME).exists()


def remove_corpus(place: CorpusPlace) -> None:
    """Delete a closed corpus's files; what else is in the directory stays.

    Raises:
        InputError: another process uses it.
        StorageError: the disk refuses.
    """
    file = Path(place.url) / FILE_NAME
    with storage_errors(file):
        end_log(file)
        remove_file(file)


class SqliteConnection(sqlite3.Connection):
    """SQLite's connection with SQLite's own ways. (heddle.corpus.rows.connection)"""

    def insert_rows(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        """Insert many rows, one statement for all."""
        marks = ", ".join("?" * len(columns.split(",")))
        self.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)

    def index_words(self, version: int, texts: Iterable[tuple[int, str, str]]) -> None:
        """Do nothing: the triggers on `chunks` have done it. (schema.py)"""

    def rebuild_words(self) -> None:
        """Have FTS5 read every text again."""
        self.execute("INSERT INTO words (words) VALUES ('rebuild')")


class _ThreadsOwn:
    """A thread's connection, closed when the thread ends: its local values go then.

    A connection is part of a cycle, and Python's garbage collection alone would close it. SQLite
    keeps the descriptor of the file while others have it open, and gives it to the next connection.
    """

    def __init__(self, connection: SqliteConnection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


class Database:
    """One SQLite file, with a connection for each thread that uses it.

    WAL lets readers go on while one writer writes; every write begins IMMEDIATE, so a second
    writer, in this process or another, waits at the start and never fails half-way.
    """

    vector_index = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._lock = threading.Lock()
        self._owned: WeakSet[_ThreadsOwn] = WeakSet()
        self._closed = False

    @classmethod
    def open(cls, directory: Path, *, create: bool) -> "Database":
        """Open the file in this directory; with `create`, make what is missing.

        Raises:
            InputError: there is no corpus and `create` is False, or the path is a file.
            ConfigError: a newer Heddle wrote it.
            StorageError: the disk refuses, or the file is damaged or not ours.
        """
        path = directory / FILE_NAME
        if directory.exists() and not directory.is_dir():
            raise InputError(f"{directory}: is a file; a corpus needs a directory")
        if not create and not path.exists():
            raise schema.no_corpus(directory)
        with storage_errors(directory):
            directory.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
            if create and not path.exists():
                path.touch(mode=FILE_MODE)  # its log gets the same mode
        database = cls(path)
        try:
            if create:
                # SQLite doesn't wait for others who make a new file a write-ahead one.
                with locked(directory), database.write() as connection:
                    schema.create_tables(connection)
            # One who replaces the file waits until it is in use, and then refuses.
            with (
                storage_errors(directory),
                locked(directory, shared=True),
                database.read() as connection,
            ):
                schema.check_version(connection, path)
                schema.upgrade(connection, path)
        except BaseException:
            database.close()
            raise
        return database

    @property
    def name(self) -> str:
        """The corpus directory."""
        return str(self.path.parent)

    @contextmanager
    def read(self, tenant: str | None = None) -> Iterator[SqliteConnection]:
        """Give this thread's connection; each statement sees the newest commit.

        SQLite knows no tenants: statements alone keep them apart.
        """
        with storage_errors(self.path):
            yield self._connection()

    @contextmanager
    def write(self) -> Iterator[SqliteConnection]:
        """Run what is inside as one transaction: committed and on the disk, or undone."""
        with storage_errors(self.path):
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # SQLite has undone it already after some errors, such as a full disk.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def best_by_words(
        self, text: str, limit: int, scope: SearchScope, is_cancelled: Callable[[], bool]
    ) -> list[int]:
        """Return the live chunks in a scope that share words with a text, by BM25, best first.

        Raises: Cancelled: `is_cancelled` has become true.
        """
        with self.read() as connection, word_search.stopped_when(connection, is_cancelled):
            try:
                return word_search.best_by_words(connection, text, limit, scope)
            except sqlite3.OperationalError as error:
                if not is_cancelled():
                    raise
                raise Cancelled("the search by words is no longer wanted") from error

    def revision(self) -> int:
        """Return how many changes a search could see have been committed."""
        with self.read() as connection:
            return meta_table.revision(connection)

    def ask_revision(self) -> None:
        """Return None: reading it takes microseconds."""

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Do nothing: SQLite sends no notices, and asking for the revision takes microseconds."""

    def claim(self, task: str) -> FileClaim | None:
        """Return the sole right to a task, by a file in the directory; None = another has it."""
        file = self.path.with_name(f"{task}.lock")
        with storage_errors(file):
            return FileClaim.taken(file)

    def structure_problems(self) -> tuple[str, ...]:
        """Return what SQLite finds wrong with the file; reads all of it."""
        with self.read() as connection:
            try:
                rows = connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})").fetchall()
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:
                return (str(error),)
        return tuple(str(row[0]) for row in rows if row[0] != "ok")

    def close(self) -> None:
        """Close the connections of all threads; closing twice is fine."""
        with self._lock:
            self._closed = True
            owned = list(self._owned)
        with storage_errors(self.path):
            for one in owned:
                one.connection.close()

    @property
    def origin(self) -> str:
        """Nothing: the index lies beside the file, and goes when another is put in its place."""
        return ""

    def within(self, answer_s: float) -> "Database":
        """Return the same file: no other process has to answer."""
        return Database(self.path)

    @property
    def bytes_on_disk(self) -> int:
        """The size of the file and of its write-ahead log."""
        files = (self.path, self.path.with_name(FILE_NAME + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _connection(self) -> SqliteConnection:
        if self._closed:
            raise InternalError(f"{self.path}: used after it was closed")
        own: _ThreadsOwn | None = getattr(self._local, "own", None)
        if own is None:
            own = self._local.own = _ThreadsOwn(_connect(self.path))
            own.connection.text_factory = _text
            with self._lock:
                self._owned.add(own)
        return own.connection


def is_writable(directory: Path) -> bool:
    """Whether the corpus in this directory can be written to; one that isn't can be read."""
    return os.access(directory, os.W_OK) and os.access(directory / FILE_NAME, os.W_OK)


def _text(stored: bytes) -> str:
    """Return a stored text; one that is no UTF-8 is damaged, and its checksum differs."""
    return stored.decode("utf-8", "replace")


def _connect(path: Path) -> SqliteConnection:
    if path.exists() and not is_writable(path.parent):
        return _connect_read_only(path)
    # Each connection is used by one thread; close() may come from another, hence the flag.
    connection = sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        factory=SqliteConnection,
    )
    try:
        connection.execute(f"PRAGMA page_size = {schema.PAGE_BYTES}")
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise StorageError(
                f"{path}: this file system can't do write-ahead logging (journal mode {mode});"
                " put the corpus on a local disk"
            )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_read_only(path: Path) -> SqliteConnection:
    """Open a file that can't be written to, such as one on a read-only volume.

    Where another process writes to it, its write-ahead log is there and is followed. Where none
    does, SQLite can't make one: it is opened as a file that stays as it is.
    """
    try:
        return _opened_read_only(path, "mode=ro")
    except sqlite3.OperationalError as error:
        if not error.sqlite_errorname.startswith(NO_LOG):
            raise
    return _opened_read_only(path, "mode=ro&immutable=1")


def _opened_read_only(path: Path, options: str) -> SqliteConnection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        factory=SqliteConnection,
    )
    try:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
    except BaseException:
        connection.close()
        raise
    return connection
