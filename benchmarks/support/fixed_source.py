"""A corpus that doesn't change, of vectors that are there already."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.source import VectorBatch, VectorSource


@dataclass(frozen=True, slots=True)
class _Batch:
    chunk_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]


class FixedSource(VectorSource):
    """Vectors [n, d] whose chunk ids are 1 to n."""

    revision, embedder = 1, "MiniLM"

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    @property
    def vector_count(self) -> int:
        return len(self._vectors)

    @property
    def dims(self) -> int:
        return self._vectors.shape[1]

    def vectors(self, after_revision: int = 0, batch_rows: int = 4096) -> Iterable[VectorBatch]:
        for first in range(0, len(self._vectors), batch_rows):
            part = self._vectors[first : first + batch_rows]
            yield _Batch(np.arange(first + 1, first + 1 + len(part)), part)
