"""The health of a corpus: which of its chunks differ from what was written."""

from collections.abc import Sequence

from heddle.corpus.checks.corpus_check import CorpusCheck, check_corpus
from heddle.corpus.damage import DamagedChunk, DamageLog
from heddle.corpus.rows.chunk_check import find_damaged
from heddle.corpus.rows.connection import IDS, Database, id_list


class CorpusHealth:
    """Finds and remembers damaged chunks; `damage` is what is known.

    Args:
        database: the corpus's.

    Raises, from every method: StorageError when the database refuses.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.damage = DamageLog(database.name)

    def check(self) -> CorpusCheck:
        """Check the database, and every chunk and vector against its checksum; reads all of it."""
        return check_corpus(self._database)

    def check_chunks(self, after: int, limit: int) -> tuple[int, ...]:
        """Check up to `limit` chunks with ids above `after`; return their ids, ascending.

        `damage` and the log name the damaged ones.
        """
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT chunk_id FROM chunks WHERE chunk_id > ? ORDER BY chunk_id LIMIT ?",
                (after, limit),
            )
            chunk_ids = tuple(row[0] for row in rows)
        self.damage.note(self._damaged_among(chunk_ids))
        return chunk_ids

    def check_damaged(self) -> None:
        """Look at the chunks that are known to be damaged again; forget what is mended."""
        known = [chunk.chunk_id for chunk in self.damage.found()]
        if known:
            still = {chunk.chunk_id for chunk in self._damaged_among(known)}
            self.damage.settle(one for one in known if one not in still)

    def note_vectors(self, chunk_ids: Sequence[int]) -> None:
        """Log and remember chunks whose vectors are damaged."""
        if chunk_ids:
            self.damage.note(self._damaged_among(chunk_ids))

    def _damaged_among(self, chunk_ids: Sequence[int]) -> list[DamagedChunk]:
        with self._database.read() as connection:
            return find_damaged(connection, f"chunk_id IN {IDS}", (id_list(chunk_ids),))
