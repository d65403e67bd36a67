"""Sees what chunk KV stores are given."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from heddle.kv.chunk_entry import ChunkEntry, StoredChunk
from heddle.kv.kv_encoding import KvEncoding


@contextmanager
def chunks_stored() -> Iterator[list[StoredChunk]]:
    """Collect the entries that are put into stores meanwhile, as they are kept."""
    stored: list[StoredChunk] = []
    encoded = StoredChunk.of

    def noting(entry: ChunkEntry, encoding: KvEncoding) -> StoredChunk:
        stored.append(encoded(entry, encoding))
        return stored[-1]

    with patch.object(StoredChunk, "of", noting):
        yield stored
