"""How many files of a store, or of a batch, are how far."""

from collections.abc import Iterable

from heddle.corpus.rows.connection import Connection
from heddle.corpus.vector_stores.records import FileCounts


def counts_of_store(connection: Connection, store_id: str) -> FileCounts:
    """Return the counts of a store."""
    return _counts(
        connection.execute(
            "SELECT state, count(*) FROM store_files WHERE store_id = ? GROUP BY state", (store_id,)
        )
    )


def counts_of_batch(connection: Connection, batch_id: str) -> FileCounts:
    """Return the counts of a batch; files that were taken out of the store count no more."""
    return _counts(
        connection.execute(
            "SELECT state, count(*) FROM batch_files JOIN store_files USING (number)"
            " WHERE batch_id = ? GROUP BY state",
            (batch_id,),
        )
    )


def _counts(rows: Iterable[tuple[str, int]]) -> FileCounts:
    return FileCounts(**dict(rows))
