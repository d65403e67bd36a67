"""Connections to a database, kept for the next who needs one."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

import psycopg

from heddle.core.errors import ConfigError, InternalError
from heddle.corpus.descriptors import is_readable
from heddle.corpus.postgres.errors import postgres_errors, refused_login, unreachable
from heddle.corpus.postgres.silence import SILENT, Silence
from heddle.corpus.postgres.timeout_connection import NoAnswer, TimeoutConnection

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

Pg = TimeoutConnection


class ConnectionPool:
    """Up to `size` connections, made when they are needed. Thread-safe.

    A server that is away is reported at once, and found again by the next call after it is back.
    So is one that has fallen silent, as soon as somebody has waited for it in vain.

    Args:
        url: what opens a connection.
        name: what people call the database.
        role: the role that each connection takes; "" = its own user.
        size: connections at most; who needs one more waits.
        answer_s: how long to wait for a connection, and for each answer on it [s]; None = for each
            answer as long as it takes.
        informed_by: another pool to the same server; both know when one finds it silent.
    """

    def __init__(
        self,
        url: str,
        name: str,
        role: str = "",
        size: int = CONNECTIONS_MAX,
        answer_s: float | None = None,
        informed_by: "ConnectionPool | None" = None,
    ) -> None:
        self._url, self._name, self._role = url, name, role
        self._answer_s = answer_s
        self._free = threading.BoundedSemaphore(size)
        self._silence: Silence = (
            Silence(self._is_heard, name) if informed_by is None else informed_by._silence
        )
        self._silence.add_pool()
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
        with self._place(), postgres_errors(self._name):
            self._silence.check()
            connection = self._taken() or self.connect(self._answer_s)
            try:
                yield connection
            except NoAnswer:
                self.fall_silent()
                raise
            finally:
                self._give_back(connection)

    def connect(self, wait_s: float | None = None) -> Pg:
        """Make a connection that is not the pool's; see `connection`.

        Args:
            wait_s: how long to wait for it [s]; None = as long as the URL says.
        """
        self._silence.check()
        try:
            return self._connected() if wait_s is None else self._connected_within(wait_s)
        except psycopg.OperationalError as error:
            if isinstance(error, NoAnswer | psycopg.errors.ConnectionTimeout):
                self.fall_silent()
            raise refused_login(self._name, error) from None

    def fall_silent(self) -> None:
        """Say that the server doesn't answer: all fail at once until it does."""
        self._silence.begin()
        self._close_idle()  # they may lead nowhere when it is back

    def close(self) -> None:
        """Close what is idle; what is lent is closed when it comes back. Twice is fine."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        self._close_idle()
        if not was_closed:
            self._silence.remove_pool()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Wait until fewer than `size` connections are lent."""
        if not self._free.acquire(timeout=self._answer_s):
            raise unreachable(self._name, SILENT)
        try:
            yield
        finally:
            self._free.release()

    def _connected(self) -> Pg:
        """Connect; raises psycopg.OperationalError as libpq says it."""
        connection = TimeoutConnection.connect(self._conninfo(), autocommit=True)
        try:
            connection.answer_s = CONNECT_S
            connection.execute(_SESSION)
            if self._role:
                connection.execute(f"SET ROLE {self._role}")
        except BaseException:
            connection.close()
            raise
        connection.answer_s = self._answer_s
        return connection

    def _connected_within(self, wait_s: float) -> Pg:
        """Connect on a thread of its own: libpq waits for each address of a host for seconds."""
        made: Future[Pg] = Future()

        def connect() -> None:
            try:
                connection = self._connected()
            except BaseException as error:
                made.set_exception(error)
            else:
                made.set_result(connection)

        threading.Thread(target=connect, name="heddle-connect", daemon=True).start()
        try:
            return made.result(wait_s)
        except TimeoutError:
            made.add_done_callback(_close_unwanted)
            raise NoAnswer(wait_s) from None

    def _is_heard(self) -> bool:
        """Whether the server says anything."""
        try:
            self._connected().close()
        except (NoAnswer, psycopg.errors.ConnectionTimeout):
            return False
        except (psycopg.Error, ConfigError):
            return True  # who needs it next hears what
        return True

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


def _close_unwanted(made: Future[Pg]) -> None:
    """Close a connection that came too late."""
    if made.exception() is None:
        made.result().close()


_IDLE: Final = psycopg.pq.TransactionStatus.IDLE
