"""A corpus's file and its logs, for the one process that uses it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError

LOG_SUFFIXES: Final = ("-wal", "-shm")


def end_log(target: Path) -> None:
    """Have what a corpus's log holds written to its file, which only its one user can.

    A log whose file is gone goes: SQLite would play it back into the file that takes its place.

    Raises: InputError: another process uses it.
    """
    if not target.exists():
        remove_logs(target)
        return
    with closing(sqlite3.connect(target, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            raise InputError(
                f"{target.parent}: a server or another process uses it; stop that first"
            ) from error
        except sqlite3.DatabaseError:
            pass  # it is damaged, which is why it goes
    remove_logs(target)


def remove_file(file: Path) -> None:
    """Remove a file with its logs, as far as they are there."""
    file.unlink(missing_ok=True)
    remove_logs(file)


def remove_logs(file: Path) -> None:
    """Remove the logs of a file that nothing uses."""
    for suffix in LOG_SUFFIXES:
        file.with_name(file.name + suffix).unlink(missing_ok=True)
