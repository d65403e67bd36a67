"""The rows that a worker searches: those of a graph, and what was added since it was built."""

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.recall.exact_index import Piece


class GraphRows:
    """What every worker says of its graph, on the host or on a device.

    Mutates: a worker exchanges `_live` where it serves another graph.
    """

    def __init__(self, live: LiveGraph) -> None:
        self._live = live

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as there is none."""
        return self._live.dims

    @property
    def revision(self) -> int:
        """The corpus revision that is searched."""
        return self._live.revision

    @property
    def count(self) -> int:
        """Vectors that can be found."""
        return self._live.count

    @property
    def nodes(self) -> int:
        """Vectors in the graph, rows [0, nodes); those of `added` follow."""
        return self._live.nodes

    @property
    def added(self) -> int:
        """Vectors that each search compares beside those that the graph leads it to."""
        return self._live.added

    def compare_piece(
        self,
        query: NDArray[np.float32],
        first: int,
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> Piece:
        """Compare a query with the rows from `first` on, a piece of them; see `ExactIndex`.

        With `allowed`, with these chunks only.
        """
        return self._live.compare_piece(query, first, distances, labels, allowed)
