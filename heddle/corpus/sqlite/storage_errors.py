"""What SQLite and the operating system say when the disk refuses, in our words."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heddle.core.errors import DiskFull, StorageError

# The start of SQLite's error name -> its meaning and the remedy. (sqlite.org/rescode.html)
_MEANINGS = {
    "SQLITE_FULL": "the disk is full; what was committed is safe: free some space and run the"
    " same command again, it resumes",
    "SQLITE_READONLY": "the file or its directory is read-only; make both writable, or copy the"
    " directory to a place that is",
    "SQLITE_CANTOPEN": "it can't be opened; its directory must exist and be writable",
    "SQLITE_BUSY": "another process kept it locked for too long; wait for it or stop it, and run"
    " the same command again",
    "SQLITE_LOCKED": "another process kept it locked for too long; wait for it or stop it, and run"
    " the same command again",
    "SQLITE_CORRUPT": "the file is damaged; move the directory away and index again, or restore"
    " a copy",
    "SQLITE_NOTADB": "this is not a corpus that Heddle wrote; name another directory, or move the"
    " file away and index again",
    "SQLITE_IOERR": "the disk failed to read or write; check it, and run the same command again",
    "SQLITE_PERM": "no permission; make the directory writable for this user",
}
_OS_MEANINGS = {
    errno.ENOSPC: "SQLITE_FULL",
    errno.EDQUOT: "SQLITE_FULL",
    errno.EROFS: "SQLITE_READONLY",
    errno.EACCES: "SQLITE_PERM",
    errno.EPERM: "SQLITE_PERM",
    errno.EIO: "SQLITE_IOERR",
}


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite or the system raise inside into a StorageError with path and fix.

    Only codes that speak of the disk are turned; a fault in a statement of ours stays as it is.
    """
    try:
        yield
    except sqlite3.Error as error:
        start = _start_of(getattr(error, "sqlite_errorname", ""))
        if start is None:
            raise
        raise _refusal(path, start, error) from error
    except StorageError:
        raise
    except OSError as error:
        raise _refusal(path, _OS_MEANINGS.get(error.errno or 0), error) from error


def _refusal(path: Path, start: str | None, error: Exception) -> StorageError:
    kind = DiskFull if start == "SQLITE_FULL" else StorageError
    meaning = "the disk refused" if start is None else _MEANINGS[start]
    return kind(f"{path}: {meaning} ({error})")


def _start_of(name: str) -> str | None:
    return next((start for start in _MEANINGS if name.startswith(start)), None)
