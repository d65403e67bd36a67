"""A chunk KV store that forgets what the corpus beside it deletes."""

import math
from collections.abc import Iterable

from heddle.core.ports import Clock
from heddle.engines.llm.reuse.deletion_log import DeletionLog, RestingLog
from heddle.kv.chunk_directory import Found
from heddle.kv.chunk_entry import ChunkEntry
from heddle.kv.chunk_key import Probe
from heddle.kv.chunk_store import ChunkStore, ChunkStoreSettings
from heddle.kv.disk.disk_tier import EndOfWrite


class CorpusChunkStore(ChunkStore):
    """Looks into the corpus's log before each prompt's lookups, as a search does. (ADR 7)

    What is deleted is forgotten in memory and on disk: the chunk's own KV, and all that has seen
    it, primed KV of its neighbours above all. Thread-safe but for `lookup` and `put`, which
    belong to one thread. A corpus that can't be read is asked again after a rest; until then both
    fail at once.

    Raises, from `lookup` and `put`: StorageError when the corpus can't be read; Unreachable when
        its database isn't there.
    """

    def __init__(
        self, settings: ChunkStoreSettings, fingerprint: str, clock: Clock, log: DeletionLog
    ) -> None:
        super().__init__(settings, fingerprint, clock)
        self._log = RestingLog(log, clock)
        self._disk.is_gone = self._log.has_told_of
        self._revision = -1  # also what was deleted before there was a store
        self._looked_s = -math.inf
        self._follow()

    def lookup(self, probes: Iterable[Probe], now_s: float) -> Found | None:
        """Return the first entry that a probe meets, of chunks that are still there."""
        if now_s != self._looked_s:  # a prompt's chunks are looked up at one moment
            self._follow()
            self._looked_s = now_s
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
            if len(gone):
                self.forget(gone.tolist())
            self._revision = revision  # last: what an error has left is forgotten the next time
