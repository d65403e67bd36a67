"""What the graph engine is given: slots in which searches are extended, and a corpus to follow."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.corpus.followed_corpus import FollowedCorpus
from heddle.engines.vector.recall.exact_index import Piece
from heddle.engines.vector.search import SortedHits


class Advanced(NamedTuple):
    """What was done: searches begun, extends made, and the slots whose searches are over."""

    seeded: int
    extends: int
    over: list[int]


class GraphWorker(Protocol):
    """What touches the graph; tests have workers of their own.

    Shapes: slots [m] int64, numbers in [0, slot_count).
    """

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as there is none."""
        ...

    @property
    def slot_count(self) -> int:
        """Searches that can be in flight at once."""
        ...

    @property
    def revision(self) -> int:
        """The corpus revision that is searched."""
        ...

    @property
    def count(self) -> int:
        """Vectors that can be found."""
        ...

    @property
    def nodes(self) -> int:
        """Vectors in the graph, rows [0, nodes); those of `added` follow."""
        ...

    @property
    def added(self) -> int:
        """Vectors that each search compares beside those that the graph leads it to."""
        ...

    @property
    def extends(self) -> NDArray[np.int64]:
        """How many extends the search of each slot has made, [slot_count]."""
        ...

    def start(self, slots: list[int], queries: NDArray[np.float32], topm: int) -> None:
        """Put searches into free slots; nothing is computed yet. Shapes: queries [m, d]."""
        ...

    def advance(self, slots: NDArray[np.int64], quantum: int, seed_extends: int) -> Advanced:
        """Extend these searches, in this order, until `quantum` extends are used.

        Each goes on to its end before the next one begins; to begin counts as `seed_extends`.
        """
        ...

    def top(self, slots: NDArray[np.int64], k: int, allowed: Allowed | None = None) -> SortedHits:
        """Return the k nearest nodes that searches came to so far, [m, k]; (inf, -1) = none.

        With `allowed`, of these chunks only. What stands beyond a search's own topM means nothing.
        """
        ...

    def compare_piece(
        self,
        query: NDArray[np.float32],
        first: int,
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> Piece:
        """Compare a query with the rows from `first` on, a piece of them; see `ExactIndex`.

        With `allowed`, with these chunks only. No row changes before the last piece.
        """
        ...


class GraphCorpus(FollowedCorpus, Protocol):
    """The corpus behind a graph."""

    def follow(self, *, in_flight: bool) -> int:
        """Bring a piece of what was written into what is searched; return the number of changes.

        While searches are in flight the graph under them stays.
        """
        ...
