"""A connection for each thread: closed when its thread ends, or by `close`."""

import sqlite3
import threading
from collections.abc import Callable

import pytest

from heddle.corpus.sqlite.database import Database, SqliteConnection
from tests.helpers.open_files import check_none_left, open_files


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_thread_that_ends_leaves_no_open_file(sqlite_database: Database) -> None:
    found: list[int] = []

    def look() -> None:
        with sqlite_database.write() as connection:
            found.append(connection.execute("SELECT 1").fetchone()[0])
        found.append(sqlite_database.revision())

    in_a_thread(look)  # SQLite keeps its descriptor of the file, for the next connection
    before = open_files()
    for _ in range(5):
        in_a_thread(look)
    assert len(found) == 12
    check_none_left(before)


def test_a_thread_keeps_its_connection_while_others_end(sqlite_database: Database) -> None:
    def current() -> SqliteConnection:
        with sqlite_database.read() as connection:
            return connection

    own = current()
    in_a_thread(current)
    assert current() is own
    assert own.execute("SELECT 1").fetchone() == (1,)


def test_closing_closes_the_connections_of_threads_that_go_on(sqlite_database: Database) -> None:
    opened, closed = threading.Event(), threading.Event()
    said: list[str] = []

    def hold() -> None:
        with sqlite_database.read() as connection:
            opened.set()
            closed.wait()
            with pytest.raises(sqlite3.ProgrammingError, match="closed") as refused:
                connection.execute("SELECT 1")
            said.append(str(refused.value))

    thread = threading.Thread(target=hold)
    thread.start()
    opened.wait()
    sqlite_database.close()
    closed.set()
    thread.join()
    assert said == ["Cannot operate on a closed database."]
