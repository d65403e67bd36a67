"""A row that is compared with vectors one by one, where its graph doesn't tell its hits. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.graph.search import GraphSearch


@dataclass(slots=True, eq=False)
class ComparedRow:
    """A row of a search that holds a slot: where it goes on among the vectors, and its k nearest.

    `is_whole`: it began with the first of them, so that nothing is left to find when it is over.

    Shapes: query [1, d]; distances and labels [1, k], (inf, -1) = none, in any order.
    Mutates: the worker moves it on.
    """

    search: GraphSearch
    query: NDArray[np.float32]
    next: int
    distances: NDArray[np.float32]
    labels: NDArray[np.int64]
    is_whole: bool = False

    @classmethod
    def of_all(cls, search: GraphSearch, query: NDArray[np.float32]) -> "ComparedRow":
        """Return a row that is compared with all that it may find."""
        shape = (1, search.payload.topk)
        nothing = np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)
        return cls(search, query, 0, *nothing, is_whole=True)

    def whose(self) -> list[int]:
        """Return the task that its search belongs to."""
        return [self.search.task_id]
