"""The compiled graph search behind the graph engine, on one core."""

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.graph import kernels
from heddle.engines.vector.graph.graph_index import GraphIndex
from heddle.engines.vector.graph.scheduler import TOPM_MAX

SEEDS = 8
PLACES_PER_TOPM = 64  # of the visited table: a search looks at some 20 to 30 nodes for each
PLACES_MIN, PLACES_MAX = 1 << 11, 1 << 15


class NumbaWorker:
    """Searches a graph in slots; compiles its code, or loads it from Numba's cache, at once.

    Args:
        index: the graph; its arrays may be memory-mapped.
        slots: searches in flight at most.
    """

    def __init__(self, index: GraphIndex, slots: int = 64) -> None:
        self._index = index
        self._vectors = index.vectors.view(np.uint16)
        self._entry_vectors = np.ascontiguousarray(self._vectors[index.entries])
        self._state = kernels.SlotState(
            queries=np.zeros((slots, index.dims), np.float32),
            ids=np.full((slots, TOPM_MAX), kernels.NOBODY, np.int32),
            distances=np.full((slots, TOPM_MAX), np.inf, np.float32),
            is_expanded=np.ones((slots, TOPM_MAX), np.bool_),
            visited=np.full((slots, PLACES_MAX), kernels.NOBODY, np.int32),
            topms=np.zeros(slots, np.int64),
            masks=np.zeros(slots, np.int64),
            cursors=np.zeros(slots, np.int64),
            extends=np.zeros(slots, np.int64),
        )
        self._compile()

    @property
    def dims(self) -> int:
        """Length of a vector."""
        return self._index.dims

    @property
    def slot_count(self) -> int:
        """Searches that can be in flight at once."""
        return len(self._state.topms)

    @property
    def revision(self) -> int:
        """The corpus revision that the graph covers."""
        return self._index.revision

    @property
    def bytes_per_search(self) -> int:
        """What a search in flight takes at most [bytes]."""
        return sum(array[0].nbytes for array in self._state)

    def seed(
        self, slots: NDArray[np.int64], queries: NDArray[np.float32], topms: NDArray[np.int64]
    ) -> None:
        """Start searches in free slots. Shapes: queries [m, d]; topms [m]."""
        self._state.queries[slots] = queries
        places = np.array([_places(topm) for topm in topms.tolist()])
        entries = self._index.entries
        kernels.seed(slots, topms, places, SEEDS, entries, self._entry_vectors, self._state)

    def advance(self, slots: NDArray[np.int64], quantum: int) -> int:
        """Extend these searches, in this order, until `quantum` extends are used; return how many.

        Each goes on to its end before the next one begins.
        """
        return int(
            kernels.advance(slots, quantum, self._vectors, self._index.neighbours, self._state)
        )

    def is_over(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether these searches have nothing left to extend, [m]."""
        is_over: NDArray[np.bool_] = self._state.cursors[slots] == self._state.topms[slots]
        return is_over

    def extends(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many extends these searches have made, [m]."""
        return self._state.extends[slots]

    def top(
        self, slots: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the distances and labels of the k nearest so far; (inf, -1) where there is none.

        What stands beyond a search's own topM means nothing.
        """
        ids = self._state.ids[slots, :k]
        labels = np.where(ids == kernels.NOBODY, -1, self._index.labels[ids])
        return self._state.distances[slots, :k], labels

    def _compile(self) -> None:
        first = np.zeros(1, np.int64)
        self.seed(first, np.zeros((1, self.dims), np.float32), np.ones(1, np.int64))
        self.advance(first, 1)


def _places(topm: int) -> int:
    wanted = 1 << (PLACES_PER_TOPM * topm - 1).bit_length()
    return min(max(wanted, PLACES_MIN), PLACES_MAX)
