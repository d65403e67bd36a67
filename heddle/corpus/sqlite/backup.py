"""A corpus copied whole, and put back: one SQLite file, checked after it is written.

All else in a corpus directory is derived from that file and made anew.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError, StorageError
from heddle.core.own_files import OWNER_ONLY
from heddle.corpus.checks.corpus_check import CorpusCheck, check_corpus
from heddle.corpus.damage import remedy
from heddle.corpus.sqlite import schema
from heddle.corpus.sqlite.database import FILE_MODE, FILE_NAME, Database
from heddle.corpus.sqlite.folder_lock import locked
from heddle.corpus.sqlite.sole_use import end_log, remove_file
from heddle.corpus.sqlite.storage_errors import storage_errors

PART: Final = ".part"  # of a file that is being written
SUFFIX: Final = ".sqlite"
TARGET_REFUSES: Final = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_READONLY")


def backup_file(target: Path) -> Path:
    """Return the file that a backup to this path is: `*.sqlite` itself, else one in a directory."""
    is_file = target.suffix == SUFFIX and not target.is_dir()
    return target if is_file else target / FILE_NAME


def back_up(directory: Path, target: Path) -> CorpusCheck:
    """Copy the corpus in a directory as of one moment, also while it is written to.

    Args:
        directory: the corpus's.
        target: a file named *.sqlite, or a directory, which becomes a corpus itself.

    Returns: what the check of the copy found: that it is sound.

    Raises:
        InputError: there is no corpus, or the target is there already.
        StorageError: the disk refuses, or the corpus is damaged; nothing is left behind.
    """
    file = backup_file(target)
    if file.exists():
        raise InputError(f"{file}: is there already; name another file or directory")
    database = Database.open(directory, create=False)
    try:
        return _copied(database, file, directory)
    finally:
        database.close()


def restore(
    backup: Path, directory: Path, *, replaces: bool = False, derived: Iterable[Path] = ()
) -> CorpusCheck:
    """Make a directory's corpus what a backup has.

    Args:
        backup: what `back_up` wrote, under any name.
        directory: where the corpus goes.
        replaces: whether a corpus that is there may go.
        derived: what was computed from that one, and goes with it.

    Returns: what the check of the new corpus found: that it is sound.

    Raises:
        InputError: there is no backup; a corpus is there and `replaces` is False, or is in use.
        ConfigError: a newer Heddle wrote the backup.
        StorageError: the disk refuses, or the backup is damaged; what was there stays.
    """
    file = backup if backup.is_file() else backup_file(backup)
    target = directory / FILE_NAME
    if not file.exists():
        raise InputError(f"{file}: no backup here; make one with: heddle backup DIR {backup}")
    if target.exists() and not replaces:
        raise InputError(f"{directory}: holds a corpus; to replace it, add --replace")
    database = Database(file)
    try:
        with database.read() as connection:
            schema.check_version(connection, file)
        with storage_errors(directory):
            end_log(target)  # a corpus in use is refused before the copy, too
        return _copied(database, target, file, derived)
    finally:
        database.close()


def _copied(
    database: Database, target: Path, source: Path, derived: Iterable[Path] = ()
) -> CorpusCheck:
    """Copy a database, check the copy, and give it its name."""
    part = target.with_name(target.name + PART)
    with storage_errors(part):
        target.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        remove_file(part)
        part.touch(mode=FILE_MODE)
    try:
        with (
            database.read() as connection,
            closing(sqlite3.connect(part)) as copy,
            _written_to(part),
        ):
            connection.backup(copy)  # in one step: what is written meanwhile is left out
        check = _checked(part, source)
        with storage_errors(target):
            _sync(part)
            _put_in_place(part, target, derived)
    finally:
        with storage_errors(part):
            remove_file(part)
    return check


def _put_in_place(part: Path, target: Path, derived: Iterable[Path]) -> None:
    """Give a copy its name; one who opens the file that it replaces waits for that.

    Raises: InputError: the file has been opened since the copy began.
    """
    with locked(target.parent) if target.exists() else nullcontext():
        end_log(target)
        for folder in derived:
            if folder.exists():
                shutil.rmtree(folder)
        part.replace(target)
        _sync(target.parent)


@contextmanager
def _written_to(part: Path) -> Iterator[None]:
    """Name the copy where its disk refuses; a damaged source is named by its own name."""
    try:
        yield
    except sqlite3.Error as error:
        if not error.sqlite_errorname.startswith(TARGET_REFUSES):
            raise
        with storage_errors(part):
            raise


def _checked(part: Path, source: Path) -> CorpusCheck:
    copy = Database(part)
    try:
        check = check_corpus(copy)
    finally:
        copy.close()
    if not check.is_sound:
        first = check.problems[0] if check.problems else str(check.damaged[0])
        raise StorageError(
            f"{source}: it is damaged and was not copied: {first}; {remedy(str(source))}"
        )
    return check


def _sync(path: Path) -> None:
    """Have a file or directory on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
