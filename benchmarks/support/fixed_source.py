"""Corpora that don't change: of vectors that are there already, or of none."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InternalError
from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.source import VectorBatch, VectorSource


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some vectors of a corpus. Shapes: chunk_ids [n] int64; vectors [n, d] float32."""

    chunk_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]


class NoSource(VectorSource):
    """A corpus that nothing is read from or written to: an index is there already."""

    @property
    def revision(self) -> int:
        return 0

    @property
    def vector_count(self) -> int:
        return 0

    @property
    def dims(self) -> int | None:
        return None

    @property
    def embedder(self) -> object | None:
        return "benchmark"

    def vectors(self, after_revision: int = 0, batch_rows: int = 4096) -> Iterator[VectorBatch]:
        return iter(())

    def deleted(self, after_revision: int) -> NDArray[np.int64]:
        return np.empty(0, np.int64)

    def allowed(self, scope: SearchScope) -> NDArray[np.int64] | None:
        return None

    def is_limited(self, scope: SearchScope) -> bool:
        return False

    def by_words(
        self, text: str, limit: int, scope: SearchScope, is_cancelled: Callable[[], bool]
    ) -> VectorBatch:
        raise InternalError("a benchmark's corpus has no words")

    def store_vectors(self, chunk_ids: Sequence[int], vectors: NDArray[np.float32]) -> int:
        raise InternalError("a benchmark's corpus is not written to")

    def close(self) -> None:
        return


class FixedSource(NoSource):
    """Vectors [n, d] whose chunk ids are 1 to n."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    @property
    def revision(self) -> int:
        return 1

    @property
    def vector_count(self) -> int:
        return len(self._vectors)

    @property
    def dims(self) -> int:
        return int(self._vectors.shape[1])

    def vectors(self, after_revision: int = 0, batch_rows: int = 4096) -> Iterator[VectorBatch]:
        for first in range(0, len(self._vectors), batch_rows):
            part = self._vectors[first : first + batch_rows]
            yield Piece(np.arange(first + 1, first + 1 + len(part)), part)
