"""Connections to a database, kept for the next who needs one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from heddle.core.errors import ConfigError, InternalError
from heddle.corpus.descriptors import is_readable
from heddle.corpus.postgres.errors import postgres_errors, refused_login

CONNECTIONS_MAX: Final = 8
CONNECT_S: Final = 2  # for each address of a host name, of which there are often two
BUSY_S: Final = 30  # for the one write at a time
SCHEMA: Final = "heddle"
# A half-open connection ends after some seconds. Values of a URL come before these.
_DEFAULTS: Final[dict[str, str | int | None]] = {
    "connect_timeout": CONNECT_S,
    "tcp_user_timeout": 5000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "application_name": "heddle",
}
_SESSION: Final = (
    f"SET search_path TO {SCHEMA}, public; SET lock_timeout TO '{BUSY_S}s'; SET TimeZone TO 'UTC'"
)

Pg = psycopg.Connection[tuple[object, ...]]


class ConnectionPool:
    """Up to `size` connections, made when they are needed. Thread-safe.

    A server that is away is reported at once, and found again by the next call after it is back.

    Args:
        url: what opens a connection.
        name: what people call the database.
        role: the role that each connection takes; "" = its own user.
        size: connections at most; who needs one more waits.
    """

    def __init__(self, url: str, name: str, role: str = "", size: int = CONNECTIONS_MAX) -> None:
        self._url, self._name, self._role = url, name, role
        self._free = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Pg] = []
        self._is_closed = False

    @contextmanager
    def connection(self) -> Iterator[Pg]:
        """Lend a connection, in autocommit mode.

        Raises:
            ConfigError: the server refuses this client.
            Unreachable: there is no server.
        """
        with self._free, postgres_errors(self._name):
            connection = self._taken() or self.connect()
            try:
                yield connection
            finally:
                self._give_back(connection)

    def connect(self) -> Pg:
        """Make a connection that is not the pool's; see `connection`."""
        try:
            connection = psycopg.connect(self._conninfo(), autocommit=True)
        except psycopg.OperationalError as error:
            raise refused_login(self._name, error) from None
        try:
            connection.execute(_SESSION)
            if self._role:
                connection.execute(f"SET ROLE {self._role}")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close what is idle; what is lent is closed when it comes back. Twice is fine."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _conninfo(self) -> str:
        try:
            given = psycopg.conninfo.conninfo_to_dict(self._url)
            missing = {name: one for name, one in _DEFAULTS.items() if name not in given}
            return psycopg.conninfo.make_conninfo(self._url, **missing)
        except psycopg.ProgrammingError as error:
            raise ConfigError(f"{self._name}: this is no URL of a database") from error.__cause__

    def _taken(self) -> Pg | None:
        """Return an idle connection; those whose server went away are dropped."""
        while True:
            with self._lock:
                if self._is_closed:
                    raise InternalError(f"{self._name}: used after it was closed")
                if not self._idle:
                    return None
                connection = self._idle.pop()
            # An idle connection has something to read only where the server ends it.
            if not connection.closed and not is_readable(connection.fileno(), wait_s=0):
                return connection
            connection.close()

    def _give_back(self, connection: Pg) -> None:
        is_idle = not connection.closed and connection.info.transaction_status == _IDLE
        with self._lock:
            if is_idle and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()


_IDLE: Final = psycopg.pq.TransactionStatus.IDLE
