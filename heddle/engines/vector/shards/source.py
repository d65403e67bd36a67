"""A part of a corpus as a vector source of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heddle.core.search_scope import SearchScope
from heddle.engines.vector.shards.part import WHOLE, Part
from heddle.engines.vector.source import VectorBatch, VectorSource


@dataclass(frozen=True, slots=True)
class PartBatch:
    """Some vectors of a part. Shapes: chunk_ids [n] int64; vectors [n, d] float32."""

    chunk_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]

    @classmethod
    def of(cls, part: Part, batch: VectorBatch) -> "PartBatch":
        """Return what of a batch is in the part."""
        mine = part.holds(batch.chunk_ids)
        return cls(batch.chunk_ids[mine], batch.vectors[mine])


class ShardSource:
    """The vectors of one part; what is stored through it may be another part's.

    Args:
        source: the corpus.
        part: what of it is seen.
    """

    def __init__(self, source: VectorSource, part: Part) -> None:
        self._source, self._part = source, part

    @property
    def revision(self) -> int:
        """The corpus's newest revision: one that changes other parts counts as well."""
        return self._source.revision

    @property
    def vector_count(self) -> int:
        """Live vectors of the part; reads them all."""
        batches = self._source.vectors()
        return sum(int(self._part.holds(batch.chunk_ids).sum()) for batch in batches)

    @property
    def dims(self) -> int | None:
        """Length of a vector; None or 0 as long as there is none."""
        return self._source.dims

    @property
    def embedder(self) -> object | None:
        """What made the vectors."""
        return self._source.embedder

    def vectors(self, after_revision: int = 0, batch_rows: int = 4096) -> Iterator[VectorBatch]:
        """Yield the part's live vectors written after a revision; only the last batch is short."""
        held: list[PartBatch] = []
        rows = 0
        for batch in self._source.vectors(after_revision, batch_rows):
            held.append(PartBatch.of(self._part, batch))
            rows += len(held[-1].chunk_ids)
            if rows >= batch_rows:
                joined = _joined(held)
                yield PartBatch(joined.chunk_ids[:batch_rows], joined.vectors[:batch_rows])
                held = [PartBatch(joined.chunk_ids[batch_rows:], joined.vectors[batch_rows:])]
                rows -= batch_rows
        if rows:
            yield _joined(held)

    def deleted(self, after_revision: int) -> NDArray[np.int64]:
        """Return the part's chunks deleted after a revision."""
        deleted = self._source.deleted(after_revision)
        return deleted[self._part.holds(deleted)]

    def allowed(self, scope: SearchScope) -> NDArray[np.int64] | None:
        """Return the part's live chunks in a scope; None = all are.

        Raises: InputError: nothing in the whole corpus fits what its `where` asks for.
        """
        allowed = self._source.allowed(scope)
        return None if allowed is None else allowed[self._part.holds(allowed)]

    def by_words(self, text: str, limit: int, scope: SearchScope) -> VectorBatch:
        """Return the corpus's best chunks by words: ranks of parts could not be merged."""
        return self._source.by_words(text, limit, scope)

    def store_vectors(self, chunk_ids: Sequence[int], vectors: NDArray[np.float32]) -> int:
        """Commit vectors to the corpus, whichever part they are; return the new revision."""
        return self._source.store_vectors(chunk_ids, vectors)

    def close(self) -> None:
        """Let go of the corpus."""
        self._source.close()


def open_source(directory: Path, part: Part) -> VectorSource:
    """Open a corpus, or a part of it.

    Raises:
        HeddleError: the corpus can't be opened.
    """
    from heddle.corpus.store import CorpusStore  # late: what only decides loads no database

    source = CorpusStore.open(directory)
    return source if part == WHOLE else ShardSource(source, part)


def _joined(batches: Sequence[PartBatch]) -> PartBatch:
    return PartBatch(
        np.concatenate([batch.chunk_ids for batch in batches]),
        np.concatenate([batch.vectors for batch in batches]),
    )
