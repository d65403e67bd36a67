"""Passages that were read before, for as long as the corpus's database is away."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from heddle.core.errors import Unreachable
from heddle.core.passages import Passage
from heddle.core.ports import PassageSource
from heddle.corpus.store import CorpusStore

BYTES_MAX: Final = 64 << 20


class KeptPassages:
    """Reads passages from a corpus, and from memory where that is away. Thread-safe.

    Whether searches may go on is the search lanes' to judge (`stale_max_s`): without their hits no
    passage is asked for.

    Args:
        source: the corpus.
        bytes_max: of the texts that are kept; those used longest ago go first.
    """

    def __init__(self, source: PassageSource, bytes_max: int = BYTES_MAX) -> None:
        self._source, self._bytes_max = source, bytes_max
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, Passage] = OrderedDict()
        self._bytes = 0

    def passages(self, chunk_ids: Sequence[int]) -> Sequence[Passage]:
        """Return the live chunks among these ids, in the order asked.

        Raises: Unreachable: the corpus is away, and not all of them were read before.
        """
        try:
            found = self._source.passages(chunk_ids)
        except Unreachable:
            with self._lock:
                if not all(chunk_id in self._kept for chunk_id in chunk_ids):
                    raise
                return [self._kept[chunk_id] for chunk_id in chunk_ids]
        with self._lock:
            for passage in found:
                self._keep(passage)
        return found

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return how many of these are known to be damaged, of those a tenant may see."""
        return self._source.count_damaged(chunk_ids, tenant)

    def _keep(self, passage: Passage) -> None:
        before = self._kept.pop(passage.chunk_id, None)
        self._bytes += len(passage.text) - (0 if before is None else len(before.text))
        self._kept[passage.chunk_id] = passage
        while self._bytes > self._bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.text)


def passages_of(store: CorpusStore | None) -> PassageSource | None:
    """Return where a server reads passages: one whose database may be away keeps them, too."""
    return KeptPassages(store) if store is not None and store.place.is_remote else store
