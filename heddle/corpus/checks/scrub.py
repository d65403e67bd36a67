"""A corpus read again and again, a few chunks at a time, to find damage before a search does."""

from collections.abc import Sequence
from typing import Final, Protocol

CHUNKS_PER_STEP: Final = 256
STEP_S: Final = 1.0  # between two steps of a pass
FIRST_S: Final = 60.0  # from the start to the first pass: a short-lived server has none
KNOWN_S: Final = 10.0  # between two looks at what is known to be damaged
HOUR_S: Final = 3600.0


class ScrubbedStore(Protocol):
    """What a scrub needs of a corpus (heddle.corpus.checks.health.CorpusHealth)."""

    def check_chunks(self, after: int, limit: int) -> Sequence[int]:
        """Check up to `limit` chunks with ids above `after`; return their ids, ascending."""
        ...

    def check_damaged(self) -> None:
        """Look at the chunks that are known to be damaged again."""
        ...


class Scrub:
    """Reads a whole corpus once per pause; each step is a short read. Reads no clock.

    Args:
        store: the corpus, which remembers what is damaged.
        hours: between the begins of two passes; 0 = only what is known to be damaged is read.
        now_s: the time [s].
        chunks_per_step: chunks that a step reads.
    """

    def __init__(
        self,
        store: ScrubbedStore,
        hours: float,
        now_s: float,
        chunks_per_step: int = CHUNKS_PER_STEP,
    ) -> None:
        self._store = store
        self._pause_s = hours * HOUR_S
        self._chunks_per_step = chunks_per_step
        self._begins_s = now_s + FIRST_S
        self._last = 0  # chunk of the pass under way
        self.chunks = 0  # read since the start
        self.passes = 0  # that have ended

    def step(self, now_s: float) -> float:
        """Read some chunks, if a pass is due; return when to be called next [s].

        Raises: StorageError: the disk refuses; the next step tries the same chunks again.
        """
        self._store.check_damaged()
        if not self._pause_s or now_s < self._begins_s:
            return now_s + KNOWN_S
        chunk_ids = self._store.check_chunks(self._last, self._chunks_per_step)
        self.chunks += len(chunk_ids)
        if len(chunk_ids) == self._chunks_per_step:
            self._last = chunk_ids[-1]
            return now_s + STEP_S
        self._last = 0
        self.passes += 1
        self._begins_s = max(now_s, self._begins_s + self._pause_s)
        return now_s + KNOWN_S
