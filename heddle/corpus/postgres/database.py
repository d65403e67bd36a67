"""A corpus in PostgreSQL: connections, transactions, tenants. (docs/guide/postgresql.md)"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Final

from heddle.core.own_files import OWNER_ONLY
from heddle.core.search_scope import SearchScope
from heddle.corpus.descriptors import is_readable
from heddle.corpus.place import CorpusPlace
from heddle.corpus.postgres import schema, word_search
from heddle.corpus.postgres.connection import PostgresConnection
from heddle.corpus.postgres.errors import postgres_errors
from heddle.corpus.postgres.listener import Listener
from heddle.corpus.postgres.pool import SCHEMA, ConnectionPool, Pg
from heddle.corpus.postgres.revision_reader import RevisionReader
from heddle.corpus.postgres.vector_index import PgVectorIndex
from heddle.corpus.postgres.vector_rows import copy_all_due, has_index
from heddle.corpus.postgres.word_terms import WordTerms
from heddle.corpus.rows import scope_query
from heddle.corpus.rows.searched_words import searched_words
from heddle.corpus.sqlite.storage_errors import storage_errors

# A hosted server may keep its control file to itself.
_ORIGIN: Final = """SELECT
    CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
        THEN (SELECT system_identifier FROM pg_control_system()) ELSE 0 END,
    CASE WHEN has_function_privilege('pg_control_checkpoint()', 'EXECUTE')
        THEN (SELECT timeline_id FROM pg_control_checkpoint()) ELSE 0 END,
    'meta'::regclass::oid::bigint"""


def open_database(place: CorpusPlace, *, create: bool) -> "PostgresDatabase":
    """Open the corpus in a database; with `create`, make its tables or bring them up to date.

    Raises:
        InputError: there is no corpus here and `create` is False.
        ConfigError: the server refuses this user, or the tables are of another Heddle.
        StorageError: the server isn't there, or the database is not a corpus.
    """
    with storage_errors(place.work):
        place.work.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    owner = ConnectionPool(place.url, place.name, size=1)
    try:
        with owner.connection() as connection:
            if create:
                schema.migrate(connection, place.name)
            schema.check_version(connection, place.name)
    finally:
        owner.close()
    database = PostgresDatabase(place)
    try:
        with database.read():
            pass  # whether this user may take the role
    except BaseException:
        database.close()
        raise
    return database


def has_corpus(place: CorpusPlace) -> bool:
    """Whether a corpus has been made in a database."""
    pool = ConnectionPool(place.url, place.name, size=1)
    try:
        with pool.connection() as connection:
            return schema.version_of(connection) > 0
    finally:
        pool.close()


def remove_corpus(place: CorpusPlace) -> None:
    """Delete a closed corpus's tables, as their owner; the roles stay."""
    pool = ConnectionPool(place.url, place.name, size=1)
    try:
        with pool.connection() as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    finally:
        pool.close()


class PostgresDatabase:
    """The tables of one corpus, through up to eight connections and one for the revision.

    Thread-safe.

    Args:
        place: where they are.
        answer_s: how long each answer may take [s]; None = as long as it takes.
        informed_by: another pool to the same server; both know when one finds it silent.
    """

    def __init__(
        self,
        place: CorpusPlace,
        answer_s: float | None = None,
        informed_by: ConnectionPool | None = None,
    ) -> None:
        self.name = place.name
        self._place = place
        self._pool = ConnectionPool(
            place.url, place.name, schema.LOG_ROLE, answer_s=answer_s, informed_by=informed_by
        )
        self._reader = RevisionReader(self._pool, place.name)
        self._listeners: list[Listener] = []
        self.vector_index = PgVectorIndex(place, self._pool, self.write)

    def within(self, answer_s: float) -> "PostgresDatabase":
        """Return the same tables, for reads that give up after `answer_s`; close both."""
        return PostgresDatabase(self._place, answer_s, self._pool)

    @cached_property
    def _terms(self) -> WordTerms:
        return WordTerms()

    @cached_property
    def origin(self) -> str:
        """Names the server's data, its timeline and the tables: all that a restore makes anew.

        Read once: an index that was followed since belongs to these, also after a restore.
        """
        with self.read() as connection:
            return ".".join(map(str, connection.execute(_ORIGIN).fetchone()))

    @property
    def bytes_on_disk(self) -> int:
        """What the tables and their indexes take on the server."""
        with self.read() as connection:
            row = connection.execute(
                "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint FROM"
                " pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
                " WHERE nspname = ? AND relkind = 'r'",
                (SCHEMA,),
            ).fetchone()
            return int(row[0])

    @contextmanager
    def read(self, tenant: str | None = None) -> Iterator[PostgresConnection]:
        """Lend a connection; each statement sees the newest commit.

        For a tenant it is one transaction, as a role to which row-level security shows the rows of
        this tenant and of no tenant.
        """
        with self._pool.connection() as connection:
            if tenant is None:
                yield self._own(connection)
                return
            with connection.transaction():
                schema.become(connection, tenant)
                yield self._own(connection)

    @contextmanager
    def _read_snapshot(self, tenant: str | None) -> Iterator[PostgresConnection]:
        """Lend a connection whose statements all see the tables as they are at the first one."""
        with self._pool.connection() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            if tenant is not None:
                schema.become(connection, tenant)
            yield self._own(connection)

    @contextmanager
    def write(self) -> Iterator[PostgresConnection]:
        """Run what is inside as one transaction, while no other one writes."""
        with self._pool.connection() as connection, connection.transaction():
            schema.lock_writes(connection)
            own = self._own(connection)
            yield own
            if has_index(own):
                copy_all_due(own)  # what has become live is found from this commit on

    def best_by_words(
        self, text: str, limit: int, scope: SearchScope, is_cancelled: Callable[[], bool]
    ) -> list[int]:
        """Return the live chunks in a scope that share words with a text, by BM25, best first.

        Raises: Cancelled: `is_cancelled` has become true.
        """
        terms = self._terms.terms(searched_words(text))
        with self.read() as connection:
            has_others = scope_query.has_others(connection, scope.tenant)
        # A word would else be counted in more texts than there were a moment before.
        with self._read_snapshot(scope.tenant if has_others else None) as connection:
            return word_search.best_by_words(
                connection,
                terms,
                limit,
                scope,
                has_others=has_others,
                is_cancelled=is_cancelled,
            )

    def revision(self) -> int:
        """Return how many changes a search could see have been committed."""
        return self._reader.revision()

    def ask_revision(self) -> Callable[[], int]:
        """Ask for the revision, and don't wait; return what waits for the answer."""
        self._reader.ask()
        return self._reader.asked

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change`, from another thread, soon after other processes have committed."""
        self._listeners.append(Listener(self._pool, f"LISTEN {schema.CHANNEL}", on_change))

    def claim(self, task: str) -> "SessionClaim | None":
        """Return the sole right to a task, by a lock of a session; None = another has it."""
        connection = self._pool.connect()
        is_taken = False
        try:
            with postgres_errors(self.name):
                row = connection.execute("SELECT pg_try_advisory_lock(hashtext(%s))", (task,))
                is_taken = row.fetchone() == (True,)
        finally:
            if not is_taken:
                connection.close()
        return SessionClaim(connection) if is_taken else None

    def structure_problems(self) -> tuple[str, ...]:
        """Return nothing: the server's own tools check its files, such as pg_amcheck."""
        return ()

    def close(self) -> None:
        """Close the connections; closing twice is fine."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()
        self._reader.close()
        self._pool.close()

    def _own(self, connection: Pg) -> PostgresConnection:
        return PostgresConnection(connection, self._terms)


class SessionClaim:
    """The sole right to a task, as long as a session lasts."""

    def __init__(self, connection: Pg) -> None:
        self._connection = connection

    @property
    def is_held(self) -> bool:
        """Whether the session goes on. Asks no server: an idle one says something as it ends."""
        connection = self._connection
        return not connection.closed and not is_readable(connection.fileno(), wait_s=0)

    def release(self) -> None:
        """End the session. Called once."""
        self._connection.close()
