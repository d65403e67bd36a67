"""The corpus's revision, which each search asks for, read with as little as libpq allows."""

import threading
from collections.abc import Callable
from typing import Final

import psycopg
from psycopg import pq

from heddle.core.errors import InternalError
from heddle.corpus.descriptors import is_readable
from heddle.corpus.postgres.errors import postgres_errors
from heddle.corpus.postgres.pool import ConnectionPool, Pg
from heddle.corpus.postgres.timeout_connection import NoAnswer

_NAME: Final = b"heddle_revision"
_STATEMENT: Final = b"SELECT value FROM meta WHERE key = 'revision'"
# One row by its key. A search lane whose step waits for longer counts as hung (`LaneLimits`).
ANSWER_S: Final = 1.0


class RevisionReader:
    """A connection of its own with one prepared statement. Thread-safe.

    A pooled connection and a cursor take longer than the server does for this row.

    Args:
        pool: makes the connection, when it is first needed and after the server was away.
        name: what people call the database.
    """

    def __init__(self, pool: ConnectionPool, name: str) -> None:
        self._pool, self._name = pool, name
        self._lock = threading.Lock()
        self._connection: Pg | None = None
        self._is_asked = self._is_closed = False

    def revision(self) -> int:
        """Return how many changes a search could see have been committed.

        Raises:
            ConfigError: the server refuses this client.
            Unreachable: there is no server, or it doesn't answer.
        """
        with self._lock, postgres_errors(self._name):
            self._is_asked = False
            return self._read(self._ask)

    def ask(self) -> None:
        """Ask for the revision; `asked` gives it, and something else can be done meanwhile.

        Raises: as `revision`.
        """
        with self._lock, postgres_errors(self._name):
            self._ask()
            self._is_asked = True

    def asked(self) -> int:
        """Return the revision as it was when it was asked for, or a newer one.

        Raises: as `revision`.
        """
        with self._lock, postgres_errors(self._name):
            is_asked, self._is_asked = self._is_asked, False
            return self._read(None if is_asked else self._ask)

    def close(self) -> None:
        """Close the connection; closing twice is fine."""
        with self._lock:
            self._is_closed = True
            self._drop()

    def _read(self, ask: Callable[[], None] | None) -> int:
        """Return the answer, after asking where `ask` is given; a lost connection is made anew."""
        try:
            if ask is not None:
                ask()
            return self._answer()
        except psycopg.OperationalError:  # the server may be back already
            self._drop()
        self._ask()
        return self._answer()

    def _ask(self) -> None:
        if self._is_closed:
            raise InternalError(f"{self._name}: used after it was closed")
        if self._connection is None:
            self._connection = self._prepared()
        try:
            self._take(self._connection)  # an answer that no caller waits for any more
            self._connection.pgconn.send_query_prepared(_NAME, None)
        except psycopg.Error:
            self._drop()
            raise

    def _answer(self) -> int:
        assert self._connection is not None, "nothing was asked"
        try:
            result = self._take(self._connection)
            assert result is not None, "the revision was not asked for"
            value = result.get_value(0, 0)
        except psycopg.Error:
            self._drop()
            raise
        assert value is not None, "the table of single values has a revision from its start"
        return int(value)

    def _take(self, connection: Pg) -> pq.abc.PGresult | None:
        """Return what the server has answered; None = nothing was asked."""
        libpq, found = connection.pgconn, None
        while True:
            while libpq.is_busy():
                libpq.consume_input()  # mostly the answer has come meanwhile
                if libpq.is_busy() and not is_readable(libpq.socket, wait_s=ANSWER_S):
                    self._pool.fall_silent()
                    raise NoAnswer(ANSWER_S)
            result = libpq.get_result()
            if result is None:
                return found
            found = _checked(connection, result)

    def _prepared(self) -> Pg:
        connection = self._pool.connect(ANSWER_S)
        try:
            connection.pgconn.send_prepare(_NAME, _STATEMENT)
            self._take(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _checked(connection: Pg, result: pq.abc.PGresult) -> pq.abc.PGresult:
    """Return what libpq gave for a statement.

    Raises: psycopg.Error: the server refused it, or is gone.
    """
    if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        return result
    if connection.pgconn.status != pq.ConnStatus.OK:
        raise psycopg.OperationalError(connection.pgconn.get_error_message())
    raise psycopg.errors.error_from_result(result)
