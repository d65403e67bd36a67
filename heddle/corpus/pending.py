"""The chunks that wait for their vectors, as an indexer takes them up."""

from collections.abc import Iterator

from heddle.core.errors import ConfigError
from heddle.corpus.records import PendingChunk
from heddle.corpus.store import CorpusStore


def pending_batches(store: CorpusStore, rows: int) -> Iterator[tuple[PendingChunk, ...]]:
    """Give the chunks without a vector, up to `rows` at a time, each once.

    A batch may still be on its way to the store when the next one is taken. After a stop, a new
    pass begins with what has no vector yet; chunks put during the pass are part of it.
    """
    if rows < 1:
        raise ConfigError(f"rows must be at least 1, not {rows}")
    last = 0
    while batch := store.documents.pending_chunks(rows, after=last):
        last = batch[-1].chunk_id
        yield batch
