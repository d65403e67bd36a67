"""A search graph that follows a corpus: its first vectors, those added since, those deleted."""

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.corpus.replay import Replay
from heddle.engines.vector.corpus.source import VectorBatch, VectorSource
from heddle.engines.vector.files.refine_store import FORGOTTEN, RefineStore
from heddle.engines.vector.graph.graph_index import GraphIndex
from heddle.engines.vector.recall.exact_index import Piece
from heddle.engines.vector.search import SortedHits, ascending

PIECE_ROWS = 1024  # vectors brought in at once: some milliseconds
CHANGED_SHARE, CHANGED_MIN = 0.1, 2000
"""Vectors added and deleted since a graph was built, from which another one serves better: a
search compares all that was added, and passes what was deleted on its way."""


class LiveGraph:
    """A graph, the vectors added since it was built, and the corpus revision that both cover.

    Each vector has a row: first the graph's nodes, then what was added. A deleted one keeps its
    row, and its node stays a way to others, but it is no hit.

    Args:
        graph: as it was built; None = none yet, then every search compares all vectors.
        revision: the corpus revision that is covered, where there is no graph to say so.
        problem: why there is none where one was expected.
    """

    def __init__(self, graph: GraphIndex | None, revision: int = 0, problem: str = "") -> None:
        self.graph, self.problem = graph, problem
        self.revision = revision if graph is None else graph.revision
        self._dims: int | None = None
        self._store = RefineStore.empty(0)
        if graph is not None:
            self._dims = graph.dims
            self._store = RefineStore(np.array(graph.labels), graph.vectors.view(np.uint16))
        # One more at the end, so that the node -1, none, has the label -1.
        self._labels = np.append(self._store.chunk_ids_at(np.arange(self._store.rows)), -1)
        self._deleted = 0  # rows that are no hits any more
        self._replay: Replay | None = None

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as there is none."""
        return self._dims

    @property
    def count(self) -> int:
        """Vectors that can be found."""
        return self._store.rows - self._deleted

    @property
    def nodes(self) -> int:
        """Vectors in the graph, deleted ones among them."""
        return 0 if self.graph is None else self.graph.count

    @property
    def added(self) -> int:
        """Vectors beside the graph."""
        return self._store.rows - self.nodes

    @property
    def is_outgrown(self) -> bool:
        """Whether so much has changed that another graph would serve better."""
        changed = self.added + self._deleted
        return changed > max(CHANGED_MIN, CHANGED_SHARE * self.nodes)

    def follow(self, source: VectorSource) -> int:
        """Bring in all that the corpus has written by now; return how many changes."""
        newest, changes = source.revision, 0
        while self.revision < newest:
            changes += self.advance(source)
        return changes

    def advance(self, source: VectorSource) -> int:
        """Bring in a piece of what the corpus has written; return how many changes.

        Deletions come first, whole, then up to PIECE_ROWS vectors in a call. `revision` is raised
        when all are in. After an error it begins again: what is replayed twice is in once.
        """
        changes, replay = 0, self._replay
        self._replay = None
        if replay is None:
            replay = Replay(source, self.revision, PIECE_ROWS)
            changes = self._remove(replay.deleted)
        batch = replay.next_piece()
        if batch is not None:
            self._add(batch)
            changes += len(batch.chunk_ids)
        if replay.is_over:
            self.revision = replay.revision
        else:
            self._replay = replay
        return changes

    @property
    def is_as_built(self) -> bool:
        """Whether the graph's own nodes are all there is, and each of them a hit."""
        return self.graph is not None and not self.added and not self._deleted

    def labelled(self, distances: NDArray[np.float32], nodes: NDArray[np.int32]) -> SortedHits:
        """Return the nodes that a search found as hits, while all is as it was built."""
        return distances, self._labels[nodes]

    def found(
        self,
        distances: NDArray[np.float32],
        nodes: NDArray[np.int64],
        topk: int,
        allowed: Allowed | None,
    ) -> SortedHits:
        """Return the nearest of the nodes that searches came to and that may be found.

        Shapes: distances and nodes [n, m], (inf, -1) = none; both answers [n, topk].
        """
        chunk_ids = self._store.chunk_ids_at(nodes)
        is_hit = chunk_ids != FORGOTTEN if allowed is None else allowed.holds(chunk_ids)
        distances = np.where(is_hit, distances, np.float32(np.inf))
        missing = ((0, 0), (0, max(0, topk - nodes.shape[1])))
        distances = np.pad(distances, missing, constant_values=np.inf)
        labels = np.pad(np.where(is_hit, chunk_ids, -1), missing, constant_values=-1)
        distances, labels = ascending(distances, labels)
        return distances[:, :topk], labels[:, :topk]

    def compare_piece(
        self,
        query: NDArray[np.float32],
        first: int,
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> Piece:
        """Compare a query with the next rows exactly; see `RefineStore.compare_piece`."""
        return self._store.compare_piece(query, first, distances, labels, allowed)

    def _add(self, batch: VectorBatch) -> None:
        if self._dims is None:
            self._dims = batch.vectors.shape[1]
            self._store = RefineStore.empty(self._dims)
        self._remove(batch.chunk_ids)
        self._store.append(batch.chunk_ids, batch.vectors)

    def _remove(self, chunk_ids: NDArray[np.int64]) -> int:
        rows = self._store.rows_of(chunk_ids)
        self._store.forget(rows)
        self._deleted += len(rows)
        return len(rows)
