"""What a search compares before its first cluster: the hits of the one before. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.search import SortedHits, ascending


class KnownHits(NamedTuple):
    """Vectors that queries were compared with, [n, h] each, in any order.

    Chunk ids, labels as the index's heaps have them, and squared distances; (-1, -1, inf) where
    there is none.
    """

    chunk_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    distances: NDArray[np.float32]

    @property
    def vectors(self) -> int:
        """How many there are, over all queries."""
        return int((self.labels >= 0).sum())

    @classmethod
    def none(cls, queries: int, width: int) -> "KnownHits":
        """Return that nothing is known."""
        nothing = np.full((queries, width), -1, np.int64)
        return cls(nothing, nothing.copy(), np.full(nothing.shape, np.inf, np.float32))

    @classmethod
    def stacked(cls, parts: "Sequence[KnownHits]") -> "KnownHits":
        """Return those of several queries together, all of one width."""
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def of(self, queries: NDArray[np.int64]) -> "KnownHits":
        """Return those of some queries."""
        return KnownHits(self.chunk_ids[queries], self.labels[queries], self.distances[queries])

    def replace(self, query: int, known: "KnownHits") -> None:
        """Let one query know others, [1, w] with w no more than h."""
        width = known.labels.shape[1]
        nothing = KnownHits.none(1, self.labels.shape[1])
        self.chunk_ids[query] = nothing.chunk_ids
        self.labels[query] = nothing.labels
        self.distances[query] = nothing.distances
        self.chunk_ids[query, :width] = known.chunk_ids[0]
        self.labels[query, :width] = known.labels[0]
        self.distances[query, :width] = known.distances[0]


def with_known(
    distances: NDArray[np.float32],
    labels: NDArray[np.int64],
    known_distances: NDArray[np.float32],
    known_labels: NDArray[np.int64],
) -> SortedHits:
    """Return what was found and what was known besides, each once, the nearest first, [n, w + h].

    What was found as well counts as that: nothing is different for having been known.

    Shapes: distances and labels [n, w], in any order; those that were known [n, h].
    """
    is_twice = (known_labels[:, :, None] == labels[:, None, :]).any(axis=2)
    return ascending(
        np.hstack([distances, np.where(is_twice, np.inf, known_distances)], dtype=np.float32),
        np.hstack([labels, np.where(is_twice, -1, known_labels)]),
    )
