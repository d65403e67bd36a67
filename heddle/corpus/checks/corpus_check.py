"""A whole corpus, checked: SQLite's own structure, every checksum, every vector."""

import sqlite3
from dataclasses import dataclass
from typing import Final

from heddle.corpus.checks.chunk_check import find_damaged
from heddle.corpus.checks.damage import DamagedChunk

PROBLEMS_MAX: Final = 20  # SQLite's own that are named


@dataclass(frozen=True, slots=True)
class CorpusCheck:
    """What was found.

    Args:
        chunks: how many were checked.
        unchecked: those of them that have no checksum: an older Heddle stored them.
        damaged: those that differ from what was written, by ascending id.
        problems: what SQLite says of its file.
    """

    chunks: int
    unchecked: int
    damaged: tuple[DamagedChunk, ...]
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damaged and not self.problems


def check_corpus(connection: sqlite3.Connection) -> CorpusCheck:
    """Check everything; reads the whole file."""
    try:
        rows = connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})").fetchall()
        chunks, unchecked = connection.execute(
            "SELECT count(*), count(*) - count(checksum) FROM chunks"
        ).fetchone()
        damaged = find_damaged(connection, "1")
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        return CorpusCheck(0, 0, (), (str(error),))
    problems = tuple(str(row[0]) for row in rows if row[0] != "ok")
    return CorpusCheck(chunks, unchecked, tuple(damaged), problems)
