"""The table of single values: the corpus's revision, and what was said about it once."""

import sqlite3


def number(connection: sqlite3.Connection, query: str) -> int:
    """Return the whole number that a query gives."""
    return int(connection.execute(query).fetchone()[0])


def revision(connection: sqlite3.Connection) -> int:
    """Return how many changes a search could see have been committed."""
    return number(connection, "SELECT value FROM meta WHERE key = 'revision'")


def read(connection: sqlite3.Connection, key: str) -> str | None:
    """Return the value of a key as text; None = there is none."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def write(connection: sqlite3.Connection, key: str, value: str | int) -> None:
    """Set the value of a key."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
