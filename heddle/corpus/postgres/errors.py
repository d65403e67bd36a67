"""What PostgreSQL and the network say when they refuse, in our words. Passwords are never shown."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from heddle.core.errors import ConfigError, DiskFull, InputError, StorageError, Unreachable

# Classes of SQLSTATE: the connection, an operator's intervention, too many connections.
_GONE: Final = ("08", "57P", "53300")
_DISK_FULL: Final = "53100"
_LOCK_TIMEOUT: Final = "55P03"
_NO_PRIVILEGE: Final = "42501"
_DAMAGED: Final = ("XX001", "XX002")
_READ_ONLY: Final = "25006"
_TOO_LONG: Final = "54000"
# What the server says to a client that it doesn't let in; libpq reports no SQLSTATE for these.
_REFUSED: Final = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "not permitted to log in",
    "certificate",
    "server does not support SSL",
)


@contextmanager
def postgres_errors(name: str) -> Iterator[None]:
    """Turn what psycopg raises inside into an error of ours that names the corpus and the fix.

    A fault in a statement of ours stays as it is.
    """
    try:
        yield
    except psycopg.Error as error:
        found = _meaning(name, error)
        if found is None:
            raise
        raise found from None  # its arguments could be shown with it


def refused_login(name: str, error: psycopg.Error) -> ConfigError | StorageError:
    """Return why no connection could be made: the server is away, or it refuses this client."""
    said = _first_line(error)
    if any(words in said for words in _REFUSED):
        return ConfigError(
            f"{name}: the database refuses the connection: {said}; check user, password (PGPASSWORD"
            " or ~/.pgpass), database and sslmode"
        )
    return unreachable(name, f"{said}; check host and port, or start the server")


def _meaning(name: str, error: psycopg.Error) -> Exception | None:
    state, said = error.sqlstate or "", _first_line(error)
    if state == _DISK_FULL:
        return DiskFull(f"{name}: the disk of the database is full; what was committed is safe")
    if state == _LOCK_TIMEOUT:
        return StorageError(
            f"{name}: another process kept it locked for too long; wait for it or stop it"
        )
    if state == _NO_PRIVILEGE:
        return ConfigError(
            f"{name}: {said}; have the owner run: GRANT heddle_log, heddle_tenant TO the user"
        )
    if state in _DAMAGED:
        return StorageError(f"{name}: the database is damaged: {said}; restore a backup")
    if state == _READ_ONLY:
        return StorageError(f"{name}: the database is read-only: {said}; connect to the primary")
    if state == _TOO_LONG:
        return InputError(
            f"an id, a name or metadata is too long for PostgreSQL's indexes ({said}): shorten it"
        )
    if state.startswith(_GONE) or (isinstance(error, psycopg.OperationalError) and not state):
        return unreachable(name, said)
    if isinstance(error, psycopg.DataError) and "NUL" in said:
        return InputError("a text holds a NUL character, which PostgreSQL can't store; remove it")
    return None


def unreachable(name: str, said: str) -> Unreachable:
    """Return what to raise where there is no server, or none that answers."""
    return Unreachable(f"{name}: the database can't be reached: {said}")


def _first_line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
