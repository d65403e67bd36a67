"""What searches of inverted lists are given: a scanner of the lists, and the corpus behind them."""

from collections.abc import Collection
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.corpus.followed_corpus import FollowedCorpus
from heddle.engines.vector.search import SortedHits


class ListScanner(Protocol):
    """Scans the lists of one index; the simulator's has a cost model instead.

    Shapes: queries [n, d] float32; lists [n, w] int64, -1 = scan nothing; distances [n, k]
    float32 and labels [n, k] int64 are running heaps of `heap_size` entries, from (inf, -1) on.
    """

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as the index is empty."""
        ...

    @property
    def list_sizes(self) -> NDArray[np.int64]:
        """Vectors in each inverted list, [nlist]; another array after each change."""
        ...

    @property
    def nprobe_default(self) -> int:
        """Clusters a query scans when it doesn't say."""
        ...

    @property
    def shares_lists(self) -> bool:
        """Whether a list that several queries of a scan want costs little more than for one."""
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

    def hits(
        self,
        queries: NDArray[np.float32],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        topk: int,
    ) -> SortedHits:
        """Return what the heaps hold as hits: chunk ids, [n, topk] each, the nearest first."""
        ...

    def nearest_of(self, queries: NDArray[np.float32], allowed: Allowed, topk: int) -> SortedHits:
        """Compare every allowed vector and return the nearest, as `hits` does.

        The queries are as they came, not prepared.
        """
        ...


class IvfCorpus(FollowedCorpus, Protocol):
    """The corpus behind inverted lists."""

    @property
    def scanner(self) -> ListScanner:
        """Scans the index that is served; another one may take its place between steps."""
        ...

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        ...

    def follow(self, *, in_flight: bool, unlimited: Collection[SearchScope] = ()) -> int:
        """Bring a piece of the corpus's changes into the index; return how many it was.

        While searches are in flight nothing is taken from under them: vectors may be added, but
        what was deleted stays, and so do the clusters. Nothing is added either while the corpus
        has what one of the scopes `unlimited` must not find: those searches have no filter.
        """
        ...
