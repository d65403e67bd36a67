"""A FAISS IVF index in memory that follows a corpus from revision to revision."""

import math
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.source import VectorSource

EXHAUSTIVE_BELOW = 20_000  # vectors up to which every list is probed by default: exact
ROWS_PER_LIST = 64
NPROBE_ABOVE = 64
SAMPLE_PER_LIST = 64  # k-means gains little from more, and its time grows with them
KMEANS_ITERATIONS = 10
KMEANS_SEED = 1234

IvfIndex = Any
"""A faiss.IndexIVFFlat; FAISS's own type stubs lack most of what its wrappers add."""


def nlist_for(count: int) -> int:
    """Return how many inverted lists suit this many vectors."""
    if count < EXHAUSTIVE_BELOW:
        return max(1, count // ROWS_PER_LIST)
    return round(2 * math.sqrt(count))


def nprobe_for(count: int, nlist: int) -> int:
    """Return how many lists a query scans by default: all of them in a small corpus."""
    return nlist if count < EXHAUSTIVE_BELOW else min(NPROBE_ABOVE, nlist)


@dataclass(slots=True, eq=False)
class LiveIndex:
    """An IndexIVFFlat (squared L2), or None without vectors, and the revision it covers.

    A search may see vectors of a newer revision than `revision` says, never miss older ones.
    """

    index: IvfIndex | None
    revision: int

    @property
    def count(self) -> int:
        """Vectors in the index."""
        return 0 if self.index is None else int(self.index.ntotal)

    @property
    def nlist(self) -> int:
        """Inverted lists; 0 without vectors."""
        return 0 if self.index is None else int(self.index.nlist)

    @property
    def dims(self) -> int | None:
        """Length of a vector."""
        return None if self.index is None else int(self.index.d)

    @property
    def is_lopsided(self) -> bool:
        """Whether the corpus has grown or shrunk so much that other centroids would serve it."""
        wanted = nlist_for(self.count)
        return not self.nlist / 2 <= wanted <= self.nlist * 2

    @classmethod
    def build(cls, source: VectorSource, nlist: int | None = None) -> "LiveIndex":
        """Train centroids on a sample and add every vector, streaming; nlist None = by size.

        The revision is read before the vectors: what is written meanwhile may be in already,
        and is replayed by its id later.
        """
        revision, count, dims = source.revision, source.vector_count, source.dims
        if not count or not dims:
            return cls(None, revision)
        nlist = nlist_for(count) if nlist is None else nlist
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dims), dims, nlist, faiss.METRIC_L2)
        index.cp.seed = KMEANS_SEED
        index.cp.niter = KMEANS_ITERATIONS
        index.cp.min_points_per_centroid = 1  # a small corpus is no reason to warn
        index.train(_sample(source, count, nlist * SAMPLE_PER_LIST))
        for batch in source.vectors():
            index.add_with_ids(batch.vectors, batch.chunk_ids)
        return cls(index, revision)

    def follow(self, source: VectorSource) -> int:
        """Bring in what the corpus has written and deleted since; return how many changes.

        Mutates: index (replaced where there was none) and revision.
        """
        if self.index is None:
            # One list, so nothing is trained inside a step of a running lane: that would take
            # seconds. It is exact, and the next open trains by size.
            built = LiveIndex.build(source, nlist=1)
            self.index, self.revision = built.index, built.revision
            return built.count
        revision = source.revision
        if revision == self.revision:
            return 0
        # Deletions first: a chunk that was deleted and written again is live.
        changes = self._remove(source.deleted(self.revision))
        for batch in source.vectors(self.revision):
            self._remove(batch.chunk_ids)
            self.index.add_with_ids(batch.vectors, batch.chunk_ids)
            changes += len(batch.chunk_ids)
        self.revision = revision
        return changes

    def _remove(self, chunk_ids: NDArray[np.int64]) -> int:
        if self.index is None or not len(chunk_ids):
            return 0
        selector = faiss.IDSelectorBatch(np.ascontiguousarray(chunk_ids, np.int64))
        return int(self.index.remove_ids(selector))


def _sample(source: VectorSource, count: int, rows_max: int) -> NDArray[np.float32]:
    """Return up to rows_max vectors of the corpus, drawn evenly with a fixed seed, [m, d]."""
    if count <= rows_max:
        return np.concatenate([batch.vectors for batch in source.vectors()])
    drawn = np.random.default_rng(KMEANS_SEED).choice(count, rows_max, replace=False)
    wanted = np.zeros(count, bool)
    wanted[drawn] = True
    parts, first = [], 0
    for batch in source.vectors():
        here = wanted[first : first + len(batch.vectors)]
        parts.append(batch.vectors[: len(here)][here])
        first += len(batch.vectors)
    return np.concatenate(parts)
