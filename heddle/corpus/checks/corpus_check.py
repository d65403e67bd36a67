"""A whole corpus, checked: the database's own structure, every checksum, every vector."""

from dataclasses import dataclass

from heddle.core.errors import StorageError
from heddle.corpus.damage import DamagedChunk
from heddle.corpus.rows.chunk_check import all_damaged
from heddle.corpus.rows.connection import Database


@dataclass(frozen=True, slots=True)
class CorpusCheck:
    """What was found.

    Args:
        chunks: how many were checked.
        unchecked: those of them that have no checksum: an older Heddle stored them.
        damaged: those that differ from what was written, by ascending id.
        problems: what the database says of its own files.
    """

    chunks: int
    unchecked: int
    damaged: tuple[DamagedChunk, ...]
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damaged and not self.problems


def check_corpus(database: Database) -> CorpusCheck:
    """Check everything; reads all of it."""
    problems = database.structure_problems()
    try:
        with database.read() as connection:
            chunks, unchecked = connection.execute(
                "SELECT count(*), count(*) - count(checksum) FROM chunks"
            ).fetchone()
            damaged = tuple(all_damaged(connection))
    except StorageError:
        if not problems:
            raise
        return CorpusCheck(0, 0, (), problems)
    return CorpusCheck(chunks, unchecked, damaged, problems)
