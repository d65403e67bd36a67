"""A FAISS IVF index in memory that follows a corpus from revision to revision."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.corpus.replay import Replay
from heddle.engines.vector.corpus.source import VectorBatch, VectorSource
from heddle.engines.vector.files.index_kind import (
    EXHAUSTIVE_BELOW,
    IndexKind,
    SearchMode,
    kind_for,
    panorama_levels,
    pq_parts,
)
from heddle.engines.vector.files.refine_store import RefineStore
from heddle.engines.vector.ivf.ivf_kind import IVF_KINDS

ROWS_PER_LIST = 64
SAMPLE_PER_LIST = 64  # k-means gains little from more, and its time grows with them
KMEANS_ITERATIONS = 10
KMEANS_SEED = 1234
TAIL_SHARE, TAIL_MIN, TAIL_MAX = 0.05, 1024, 20_000  # vectors replayed rather than saved
PIECE_ROWS = 1024  # the most vectors that are brought in at once while others wait ...
PIECE_COMPARISONS = 2**17  # ... and of comparisons with centroids: some milliseconds
FOLLOW_ROWS = 4096  # brought in at once where no search waits

IvfIndex = Any
"""A faiss.IndexIVF, or one behind a rotation (IndexPreTransform); FAISS's own type stubs lack
most of what its wrappers add."""


def nlist_for(count: int) -> int:
    """Return how many inverted lists suit this many vectors."""
    if count < EXHAUSTIVE_BELOW:
        return max(1, count // ROWS_PER_LIST)
    return round(2 * math.sqrt(count))


@dataclass(slots=True, eq=False)
class LiveIndex:
    """An IVF index (squared L2), or None without vectors, and the revision it covers.

    A search may see vectors of a newer revision than `revision` says, never miss older ones. The
    labels in the index are chunk ids, or rows of `refine` where it keeps codes only. `tail` counts
    what was written and deleted since its file was: the next to open it replays as much.
    """

    index: IvfIndex | None
    revision: int
    refine: RefineStore | None = None
    mode: SearchMode = SearchMode.AUTO
    tail: int = 0
    _replay: Replay | None = None

    @property
    def count(self) -> int:
        """Vectors in the index."""
        return 0 if self.index is None else int(self.index.ntotal)

    @property
    def ivf(self) -> IvfIndex:
        """The inverted lists themselves, behind a rotation if there is one."""
        if isinstance(self.index, faiss.IndexPreTransform):
            return faiss.downcast_index(self.index.index)
        return self.index

    @property
    def kind(self) -> IndexKind:
        """How the vectors are stored."""
        return IVF_KINDS[type(self.ivf).__name__].index_kind

    @property
    def nlist(self) -> int:
        """Inverted lists; 0 without vectors."""
        return 0 if self.index is None else int(self.ivf.nlist)

    @property
    def dims(self) -> int | None:
        """Length of a vector."""
        return None if self.index is None else int(self.index.d)

    @property
    def is_outgrown(self) -> bool:
        """Whether the corpus has grown or shrunk so much that another index would serve it."""
        if self.index is None:
            return False
        wanted = nlist_for(self.count)
        if not self.nlist / 2 <= wanted <= self.nlist * 2:
            return True
        if self.refine is not None and self.refine.rows > 2 * self.count:
            return True
        # A corpus that shrinks keeps its kind for a while, so that none swings to and fro.
        kinds = {kind_for(count, self.mode) for count in (self.count, 2 * self.count)}
        return self.kind not in kinds

    @property
    def wants_saving(self) -> bool:
        """Whether its tail is long enough to be worth writing the whole file again."""
        return self.tail >= min(max(TAIL_SHARE * self.count, TAIL_MIN), TAIL_MAX)

    def list_sizes(self) -> NDArray[np.int64]:
        """Return how many vectors each inverted list holds, [nlist]."""
        if self.index is None:
            return np.zeros(0, np.int64)
        size_of = self.ivf.invlists.list_size
        return np.array([size_of(number) for number in range(self.nlist)], np.int64)

    @classmethod
    def build(
        cls,
        source: VectorSource,
        mode: SearchMode = SearchMode.AUTO,
        kind: IndexKind | None = None,
    ) -> "LiveIndex":
        """Train on a sample and add every vector, streaming; size and mode decide the kind if None.

        The revision is read before the vectors: what is written meanwhile may be in already,
        and is replayed by its id later.
        """
        revision, count, dims = source.revision, source.vector_count, source.dims
        if not count or not dims:
            return cls(None, revision, mode=mode)
        nlist, kind = nlist_for(count), kind or kind_for(count, mode)
        index = _untrained(kind, dims, nlist)
        index.train(_sample(source, count, nlist * SAMPLE_PER_LIST))
        refine = RefineStore.empty(dims, count) if kind is IndexKind.PQ else None
        live = cls(index, revision, refine, mode)
        for batch in source.vectors():
            live._insert(batch)
        live.tail = live.count
        return live

    def follow(self, source: VectorSource) -> int:
        """Bring in all that the corpus has written and deleted by now; return how many changes.

        Mutates: index (made where there was none) and revision.
        """
        newest, changes = source.revision, 0
        while self.revision < newest:
            changes += self.advance(source, piece_rows=FOLLOW_ROWS)
        return changes

    def advance(
        self,
        source: VectorSource,
        *,
        may_delete: bool = True,
        may_add: Callable[[], bool] = lambda: True,
        piece_rows: int | None = None,
    ) -> int:
        """Bring in a piece of what the corpus has written; return how many changes.

        Deletions come first, whole, and only if `may_delete`, else nothing is done; then up to
        `piece_rows` vectors in a call (None: so few that a lane's searches hardly wait), if
        `may_add` says so before and after they were read. `revision` is raised when all are in.
        After an error it begins again: what is replayed twice is in once. That gives it another
        row of `refine`, so it counts as a deletion.

        Mutates: index (made where there was none) and revision.
        """
        if not may_add():
            return 0
        changes, replay = 0, self._replay
        self._replay = None
        if replay is None:
            replay = Replay(source, self.revision, piece_rows or self._piece_rows)
            if len(replay.deleted) and not may_delete:
                return 0
            changes = self._remove(replay.deleted)
        batch = replay.next_piece()
        if batch is not None:
            if not may_add() or (not may_delete and self._has_rows_of(batch)):
                return changes
            self._add(batch)
            changes += len(batch.chunk_ids)
        self.tail += changes
        if replay.is_over:
            self.revision = replay.revision
        else:
            self._replay = replay
        return changes

    @property
    def _piece_rows(self) -> int:
        return max(1, min(PIECE_ROWS, PIECE_COMPARISONS // max(1, self.nlist)))

    def _add(self, batch: VectorBatch) -> None:
        if self.index is None:
            # One list, so nothing is trained inside a step of a running lane: that would take
            # seconds. It is exact, and good until the lane has clustered its corpus.
            self.index = _untrained(IndexKind.FLAT, batch.vectors.shape[1], 1)
            self.index.train(batch.vectors)
        self._remove(batch.chunk_ids)
        self._insert(batch)

    def _has_rows_of(self, batch: VectorBatch) -> bool:
        return self.refine is not None and len(self.refine.rows_of(batch.chunk_ids)) > 0

    def _insert(self, batch: VectorBatch) -> None:
        labels = batch.chunk_ids
        if self.refine is not None:
            labels = self.refine.append(batch.chunk_ids, batch.vectors)
        assert self.index is not None, "nothing to insert into"
        self.index.add_with_ids(batch.vectors, labels)

    def _remove(self, chunk_ids: NDArray[np.int64]) -> int:
        if self.index is None or not len(chunk_ids):
            return 0
        labels = chunk_ids
        if self.refine is not None:
            labels = self.refine.rows_of(chunk_ids)
            self.refine.forget(labels)
            if not len(labels):
                return 0  # spares a pass over every list
        selector = faiss.IDSelectorBatch(np.ascontiguousarray(labels, np.int64))
        return int(self.index.remove_ids(selector))


def _untrained(kind: IndexKind, dims: int, nlist: int) -> IvfIndex:
    quantizer = faiss.IndexFlatL2(dims)
    if kind is IndexKind.PQ:
        parts, bits = pq_parts(dims), 4
        ivf: IvfIndex = faiss.IndexIVFPQFastScan(
            quantizer, dims, nlist, parts, bits, faiss.METRIC_L2
        )
        ivf.by_residual = False  # else a query's tables would depend on the lists of a step
        ivf.pq.cp.seed = KMEANS_SEED
    elif kind is IndexKind.PANORAMA:
        ivf = faiss.IndexIVFFlatPanorama(quantizer, dims, nlist, panorama_levels(dims))
    else:
        ivf = faiss.IndexIVFFlat(quantizer, dims, nlist, faiss.METRIC_L2)
    ivf.cp.seed = KMEANS_SEED
    ivf.cp.niter = KMEANS_ITERATIONS
    ivf.cp.min_points_per_centroid = 1  # a small corpus is no reason to warn
    if kind is not IndexKind.PANORAMA:
        return ivf
    # Most of a vector's length in its first pieces, so that most comparisons end there.
    return faiss.IndexPreTransform(faiss.PCAMatrix(dims, dims), ivf)


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
