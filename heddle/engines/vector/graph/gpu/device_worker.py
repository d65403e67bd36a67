"""The graph search of a device behind the graph engine: all searches in flight go on together."""

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.graph.gpu.batch import DeviceGraph
from heddle.engines.vector.graph.gpu.search import (
    DeviceSearch,
    Extend,
    extend_by_kernel,
)
from heddle.engines.vector.graph.graph_rows import GraphRows
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker_port import Advanced
from heddle.engines.vector.search import SortedHits

TOPM_MIN: Final = 16  # candidates of the smallest batch


class DeviceWorker(GraphRows):
    """Searches a graph on a device, several extends of all searches between two looks at them.

    A batch keeps as many candidates for each of its searches, a power of two. So searches with
    other numbers of candidates are in other batches, each made for the first that needs it. One
    that wants a number between two gets the larger one, and so finds no less. A search's result
    never depends on those beside it, nor on the order in which they are extended.

    Args:
        live: the graph, which is copied to the device; what was added since is compared here.
        device: where.
        slots: searches in flight at most.
        extend: how a batch is extended there.
    """

    def __init__(
        self,
        live: LiveGraph,
        device: torch.device,
        slots: int = 64,
        extend: Extend = extend_by_kernel,
    ) -> None:
        super().__init__(live)
        self.slot_count = slots
        self._device, self._extend = device, extend
        self._extends = np.zeros(slots, np.int64)
        self._topm = np.zeros(slots, np.int64)  # of the batch that a slot's search is in
        self._queries: dict[int, NDArray[np.float32]] = {}  # of searches that haven't begun
        self._batches: dict[int, DeviceSearch] = {}
        self._graph: DeviceGraph | None = None
        self.serve(live)

    def serve(self, live: LiveGraph) -> None:
        """Search this from now on; where that fails, what was searched before.

        No search may be in flight.
        """
        graph = None if live.graph is None else DeviceGraph.of(live.graph, self._device)
        before = self._live, self._graph, self._batches
        self._live, self._graph, self._batches, self._queries = live, graph, {}, {}
        if graph is None:
            return
        try:  # compiles, and finds out now whether there is memory for it
            self.start([0], np.zeros((1, live.dims or 0), np.float32), TOPM_MIN)
            self.advance(np.zeros(1, np.int64), 1, 0)
        except Exception:
            self._live, self._graph, self._batches = before
            raise

    @property
    def extends(self) -> NDArray[np.int64]:
        """How many extends the search of each slot has made, [slot_count]."""
        return self._extends

    def start(self, slots: list[int], queries: NDArray[np.float32], topm: int) -> None:
        """Put searches into free slots; nothing is computed yet. Shapes: queries [m, d]."""
        for slot, query in zip(slots, queries, strict=True):
            self._queries[slot] = query
            self._topm[slot], self._extends[slot] = _batch_topm(topm), 0

    def advance(self, slots: NDArray[np.int64], quantum: int, seed_extends: int) -> Advanced:
        """Extend these searches together, until `quantum` extends are used or all are over.

        To begin counts as `seed_extends`. Others in their batches are extended along, at no cost.
        """
        if self._graph is None:
            return Advanced(0, 0, slots.tolist())
        seeded = self._begin(slots)
        before, left = int(self._extends[slots].sum()), quantum - seeded * seed_extends
        over: NDArray[np.int64] = slots[:0]
        while True:
            for topm in np.unique(self._topm[slots]).tolist():
                over = np.append(over, self._look(topm, slots[self._topm[slots] == topm]))
            slots = np.setdiff1d(slots, over, assume_unique=True)
            made = int(self._extends[np.append(slots, over)].sum()) - before
            if not len(slots) or made >= left:
                return Advanced(seeded, made, over.tolist())

    def top(self, slots: NDArray[np.int64], k: int, allowed: Allowed | None = None) -> SortedHits:
        """Return the k nearest nodes that searches came to so far, [m, k]; (inf, -1) = none.

        With `allowed`, of these chunks only.
        """
        widest = max(k, int(self._topm[slots].max(initial=1)))
        distances = np.full((len(slots), widest), np.inf, np.float32)
        nodes = np.full((len(slots), widest), -1, np.int64)
        for topm in np.unique(self._topm[slots]).tolist() if self._batches else ():
            places = np.flatnonzero(self._topm[slots] == topm)
            found = self._batches[topm].nodes(slots[places].tolist(), topm)
            distances[places, :topm], nodes[places, :topm] = found
        return self._live.found(distances, nodes, k, allowed)

    def _begin(self, slots: NDArray[np.int64]) -> int:
        """Start the searches of these slots that haven't begun; return how many."""
        waiting = [slot for slot in slots.tolist() if slot in self._queries]
        for topm in {int(self._topm[slot]) for slot in waiting}:
            own = [slot for slot in waiting if self._topm[slot] == topm]
            queries = np.stack([self._queries.pop(slot) for slot in own])
            self._batch(topm).start(own, queries)
        return len(waiting)

    def _batch(self, topm: int) -> DeviceSearch:
        """Return the batch whose searches keep this many candidates; it is made once."""
        if topm not in self._batches:
            graph, on_device = self._live.graph, self._graph
            assert graph is not None, "a batch without a graph"
            self._batches[topm] = DeviceSearch(
                graph,
                self._device,
                slots=self.slot_count,
                topm=topm,
                extend=self._extend,
                on_device=on_device,
            )
        return self._batches[topm]

    def _look(self, topm: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Extend a batch and see how far its searches are; return which of these are over."""
        batch = self._batches[topm]
        is_over = batch.advance()
        self._extends[slots] = batch.extends[slots]
        return slots[is_over[slots]]


def _batch_topm(topm: int) -> int:
    """Return how many candidates the searches of a batch keep that is right for this number."""
    return max(TOPM_MIN, 1 << (topm - 1).bit_length())
