"""What the KV of chunks depends on: how it is primed, and what stands before and beside a chunk."""

from collections.abc import Sequence
from typing import Final

from heddle.core.kv_reuse import PrimedWith
from heddle.core.passages import Passage
from heddle.corpus.checks.health import CorpusHealth
from heddle.corpus.records import VectorBatch
from heddle.corpus.rows import meta_table, vector_table
from heddle.corpus.rows.connection import Database

# With the model's name behind them.
_PRIMED_KEYS: Final = {
    PrimedWith.PRECEDING: "primed with neighbours: ",
    PrimedWith.NEAREST: "primed with the nearest: ",
}


class ChunkKvLog:
    """What a corpus says to those who compute its chunks' KV.

    Args:
        database: the corpus's.
        health: remembers the damaged chunks that reads meet.

    Raises, from every method: StorageError when the database refuses.
    """

    def __init__(self, database: Database, health: CorpusHealth) -> None:
        self._database = database
        self._health = health

    def neighbours_max(self, model: str, primed_with: PrimedWith) -> int | None:
        """Return how many such neighbours a model's KV of the chunks is primed with; None: none."""
        with self._database.read() as connection:
            found = meta_table.read(connection, _PRIMED_KEYS[primed_with] + model)
        return None if found is None else int(found)

    def set_neighbours_max(self, model: str, primed_with: PrimedWith, count: int) -> None:
        """Say that a model's KV of the chunks is to be primed, with `count` such neighbours."""
        with self._database.write() as connection:
            meta_table.write(connection, _PRIMED_KEYS[primed_with] + model, count)

    def count_owned(self, tenant: str, collection: str) -> int:
        """Return how many searchable chunks a tenant has in a collection."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT count(*) FROM documents JOIN chunks USING (version)"
                " WHERE tenant = ? AND collection = ? AND status = 'live' AND same_as IS NULL",
                (tenant, collection),
            )
            return int(rows.fetchone()[0])

    def passage_before(self, chunk_id: int) -> Passage | None:
        """Return the chunk that precedes a live one in its document; None for the first."""
        with self._database.read() as connection:
            before = vector_table.preceding(connection, chunk_id)
            found, damaged = vector_table.read_passages(connection, before)
        self._health.damage.note(damaged)
        return next(iter(found), None)

    def vectors_of(self, chunk_ids: Sequence[int]) -> VectorBatch:
        """Return the vectors of those of these chunks that have one, in the order asked.

        Damaged ones are left out; the corpus's health and the log name them.
        """
        with self._database.read() as connection:
            dims = meta_table.dims(connection)
            batch, damaged = vector_table.read_chunks(connection, [int(i) for i in chunk_ids], dims)
        self._health.note_vectors(damaged)
        return batch
