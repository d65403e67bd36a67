"""What the vector engine is given: the index, and the corpus that it follows."""

from collections.abc import Collection
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.corpus.word_searcher import WordSearcher
from heddle.engines.vector.search import SortedHits


class VectorWorker(Protocol):
    """What touches the index; the simulator's has a cost model instead.

    Shapes: queries [n, d] float32; lists [n, w] int64, -1 = scan nothing; distances [n, k]
    float32 and labels [n, k] int64 are running heaps of `heap_size` entries, from (inf, -1) on.
    """

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as the index is empty."""
        ...

    @property
    def list_sizes(self) -> NDArray[np.int64]:
        """Vectors in each inverted list, [nlist]."""
        ...

    @property
    def nprobe_default(self) -> int:
        """Clusters a query scans when it doesn't say."""
        ...

    @property
    def shares_lists(self) -> bool:
        """Whether a list that several queries of a scan want costs little more than for one."""
        ...

    @property
    def words(self) -> WordSearcher:
        """What searches by words."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What every search is told: where it goes another way than meant."""
        ...

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        ...

    def heap_size(self, topk: int) -> int:
        """Return how many entries a heap needs for this many hits."""
        ...

    def prepared(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return queries as the other methods take them, [n, d]."""
        ...

    def coarse(self, queries: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
        """Return the nearest lists of each query, nearest first, [n, nprobe]."""
        ...

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> NDArray[np.int64] | None:
        """Scan these lists for what is allowed; updates the heaps in place.

        Returns how many of each row's lists a device beside the host has scanned, [n], or None.
        """
        ...

    def allowed(self, scope: SearchScope) -> Allowed | None:
        """Return what a scope lets a search find in the index as it is; None = everything.

        Raises: InputError: nothing fits what it asks for.
        """
        ...

    def nearest_of(self, queries: NDArray[np.float32], allowed: Allowed, topk: int) -> SortedHits:
        """Compare every allowed vector and return the nearest, as `hits` does.

        The queries are as they came, not prepared.
        """
        ...

    def hits(
        self,
        queries: NDArray[np.float32],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        topk: int,
    ) -> SortedHits:
        """Return what the heaps hold as hits: chunk ids, [n, topk] each, the nearest first."""
        ...

    def newest_revision(self) -> int:
        """Return the newest revision that was committed to the corpus, here or elsewhere."""
        ...

    def covers(self, revision: int) -> bool:
        """Whether a search that has to see this revision may begin on the index as it is."""
        ...

    def follow(self, *, in_flight: bool, unlimited: Collection[SearchScope] = ()) -> int:
        """Bring a piece of what the corpus has written into the index; return how many changes.

        While searches are in flight nothing is taken from under them: vectors may be added, but
        what was deleted stays, and so do the clusters. Nothing is added either while the corpus
        has what one of the scopes `unlimited` must not find: those searches have no filter.
        """
        ...

    def store(self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> int:
        """Commit vectors to the corpus; return its revision, which the index will follow."""
        ...

    def close(self) -> None:
        """Let go of the corpus; nothing is called afterwards."""
        ...
