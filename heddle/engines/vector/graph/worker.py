"""The compiled graph search behind the graph engine, on one core."""

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.graph import kernels
from heddle.engines.vector.graph.entry_points import entry_points
from heddle.engines.vector.graph.graph_rows import GraphRows
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.scheduler import TOPM_MAX
from heddle.engines.vector.graph.worker_port import Advanced
from heddle.engines.vector.search import SortedHits

PLACES_PER_TOPM = 64  # of the visited table: a search looks at some 20 to 30 nodes for each
PLACES_MIN, PLACES_MAX = 1 << 11, 1 << 15


class NumbaWorker(GraphRows):
    """Searches a graph in slots; compiles its code, or loads it from Numba's cache, at once.

    Args:
        live: the graph; its arrays may lie in a mapped file.
        slots: searches in flight at most.
    """

    def __init__(self, live: LiveGraph, slots: int = 64) -> None:
        super().__init__(live)
        self.slot_count = slots
        self._over = np.zeros(slots, np.int64)
        self.serve(live)
        self.start([0], np.zeros((1, live.dims or 0), np.float32), 1)
        self.advance(np.zeros(1, np.int64), 1, 0)
        nothing = np.full((1, 1), np.inf, np.float32), np.full((1, 1), -1, np.int64)
        self.compare_piece(np.zeros((1, live.dims or 0), np.float32), 0, *nothing)

    def serve(self, live: LiveGraph) -> None:
        """Search this from now on; where that fails, what was searched before.

        No search may be in flight.
        """
        slots, dims = self.slot_count, live.dims or 0
        vectors, neighbours = np.zeros((0, dims), np.uint16), np.zeros((0, 1), np.int32)
        entries = np.zeros(0, np.int32)
        if live.graph is not None:
            vectors = live.graph.vectors.view(np.uint16)
            neighbours, entries = live.graph.neighbours, live.graph.entries
        starts = entry_points(entries, vectors)
        state = kernels.SlotState(
            queries=np.zeros((slots, dims), np.float32),
            ids=np.full((slots, TOPM_MAX), kernels.NOBODY, np.int32),
            distances=np.full((slots, TOPM_MAX), np.inf, np.float32),
            is_expanded=np.ones((slots, TOPM_MAX), np.bool_),
            visited=np.full((slots, PLACES_MAX), kernels.NOBODY, np.int32),
            marks=np.zeros((slots, 4), np.int64),
        )
        self._live, self._state = live, state
        self._vectors, self._neighbours, self._entries = vectors, neighbours, starts

    @property
    def bytes_per_search(self) -> int:
        """What a search in flight takes at most [bytes]."""
        return sum(array[0].nbytes for array in self._state)

    @property
    def extends(self) -> NDArray[np.int64]:
        """How many extends the search of each slot has made, [slot_count]."""
        return self._state.marks[:, kernels.EXTENDS]

    def start(self, slots: list[int], queries: NDArray[np.float32], topm: int) -> None:
        """Put searches into free slots; nothing is computed yet. Shapes: queries [m, d]."""
        marks = (topm, _places(topm) - 1, kernels.UNSEEDED, 0)
        for slot, query in zip(slots, queries, strict=True):
            self._state.queries[slot], self._state.marks[slot] = query, marks

    def advance(self, slots: NDArray[np.int64], quantum: int, seed_extends: int) -> Advanced:
        """Extend these searches, in this order, until `quantum` extends are used.

        Each goes on to its end before the next one begins; to begin counts as `seed_extends`.
        """
        seeded, extends, ended = kernels.advance(
            slots,
            quantum,
            seed_extends,
            self._vectors,
            self._neighbours,
            self._entries,
            self._state,
            self._over,
        )
        return Advanced(seeded, extends, self._over[:ended].tolist())

    def top(self, slots: NDArray[np.int64], k: int, allowed: Allowed | None = None) -> SortedHits:
        """Return the k nearest nodes that searches came to so far, [m, k]; (inf, -1) = none.

        With `allowed`, of these chunks only. What stands beyond a search's own topM means nothing.
        """
        state, live = self._state, self._live
        if live.is_as_built and allowed is None:
            return live.labelled(state.distances[slots, :k], state.ids[slots, :k])
        topms = state.marks[slots, kernels.TOPM, None]
        is_beyond = np.arange(max(k, int(topms.max(initial=1)))) >= topms
        width = is_beyond.shape[1]
        nodes = np.where(is_beyond, kernels.NOBODY, state.ids[slots, :width])
        distances = np.where(is_beyond, np.float32(np.inf), state.distances[slots, :width])
        return live.found(distances, nodes.astype(np.int64), k, allowed)


def _places(topm: int) -> int:
    wanted = 1 << (PLACES_PER_TOPM * topm - 1).bit_length()
    return min(max(wanted, PLACES_MIN), PLACES_MAX)
