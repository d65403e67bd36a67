"""The passages that came with a request: the nearest of them, and where they are looked up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.core.passages import OWN_CHUNK_MIN, Passage
from heddle.core.results import Hits


def nearest_own(queries: NDArray[np.float32], vectors: NDArray[np.float32], topk: int) -> Hits:
    """Return the passages nearest to each query: all are compared, ties go by position.

    The i-th vector is that of chunk `OWN_CHUNK_MIN + i`. It runs in a thread, not in the runtime's.

    Shapes: queries [n, d] and vectors [m, d] float32, normalised; labels and distances
        [n, min(topk, m)].
    """
    distances = np.maximum(0.0, 2.0 - 2.0 * (queries @ vectors.T)).astype(np.float32)
    order = np.argsort(distances, axis=1, kind="stable")[:, :topk]
    return Hits(order + OWN_CHUNK_MIN, np.take_along_axis(distances, order, axis=1))


@dataclass(frozen=True, slots=True)
class OwnSource:
    """A PassageSource of a request's own passages, in the order of their ids."""

    own: tuple[Passage, ...]

    def passages(self, chunk_ids: Sequence[int]) -> Sequence[Passage]:
        """Return the passages with these ids, in the order asked."""
        return [self.own[chunk_id - OWN_CHUNK_MIN] for chunk_id in chunk_ids]

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return 0: they are in memory."""
        return 0
