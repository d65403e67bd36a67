"""A chunk KV store that forgets what the corpus beside it deletes."""

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.ports import Clock
from heddle.kv.chunk_directory import Found
from heddle.kv.chunk_entry import ChunkEntry
from heddle.kv.chunk_key import Probe
from heddle.kv.chunk_store import ChunkStore, ChunkStoreSettings
from heddle.kv.disk.disk_tier import EndOfWrite


class DeletionLog(Protocol):
    """What a corpus says of its deleted chunks (heddle.corpus.store.CorpusStore)."""

    @property
    def revision(self) -> int:
        """Grows with every committed change."""
        ...

    def deleted(self, after_revision: int) -> NDArray[np.int64]:
        """Return the ids of chunks deleted after a revision. Shape: [n] int64."""
        ...

    def has_deleted(self, chunk_ids: Sequence[int]) -> bool:
        """Whether any of these chunks is deleted."""
        ...

    def close(self) -> None:
        """Let go of it; nothing is called afterwards."""
        ...


class CorpusChunkStore(ChunkStore):
    """Looks into the corpus's log before each prompt's lookups, as a search does. (ADR 7)

    What is deleted is forgotten in memory and on disk: the chunk's own KV, and all that has seen
    it, primed KV of its neighbours above all. Thread-safe but for `lookup` and `put`, which
    belong to one thread.

    Raises, from `lookup` and `put`: StorageError when the corpus can't be read.
    """

    def __init__(
        self, settings: ChunkStoreSettings, fingerprint: str, clock: Clock, log: DeletionLog
    ) -> None:
        super().__init__(settings, fingerprint, clock)
        self._log = log
        self._revision = -1  # also what was deleted before there was a store
        self._looked_s = -math.inf
        self._follow()

    def lookup(self, probes: Iterable[Probe], now_s: float) -> Found | None:
        """Return the first entry that a probe meets, of chunks that are still there."""
        if now_s != self._looked_s:  # a prompt's chunks are looked up at one moment
            self._looked_s = now_s
            self._follow()
        return super().lookup(probes, now_s)

    def put(self, entry: ChunkEntry, now_s: float, ended: EndOfWrite | None = None) -> bool:
        """Store an entry, unless a chunk it has seen was deleted while it was computed."""
        if not self._log.has_deleted(entry.record.sources):
            return super().put(entry, now_s, ended)
        if ended is not None:
            ended(None)
        return False

    def close(self) -> None:
        """Write what waits to be written, end the threads, close the log."""
        super().close()
        self._log.close()

    def _follow(self) -> None:
        revision = self._log.revision
        if revision != self._revision:
            gone = self._log.deleted(self._revision)
            self._revision = revision
            if len(gone):
                self.forget(gone.tolist())
