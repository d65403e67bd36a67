"""What the graph engine is given: slots in which searches are started and extended."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class GraphWorker(Protocol):
    """What touches the graph; a test's or the simulator's computes what it likes.

    Shapes: slots [m] int64, numbers in [0, slot_count); distances [m, k] float32 and labels
    [m, k] int64 as in Hits.
    """

    @property
    def dims(self) -> int:
        """Length of a vector."""
        ...

    @property
    def slot_count(self) -> int:
        """Searches that can be in flight at once."""
        ...

    @property
    def revision(self) -> int:
        """The corpus revision that the graph covers."""
        ...

    def seed(
        self, slots: NDArray[np.int64], queries: NDArray[np.float32], topms: NDArray[np.int64]
    ) -> None:
        """Start searches in free slots. Shapes: queries [m, d]; topms [m]."""
        ...

    def advance(self, slots: NDArray[np.int64], quantum: int) -> int:
        """Extend these searches, in this order, until `quantum` extends are used; return how many.

        Each goes on to its end before the next one begins.
        """
        ...

    def is_over(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether these searches have nothing left to extend, [m]."""
        ...

    def extends(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many extends these searches have made, [m]."""
        ...

    def top(
        self, slots: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the distances and labels of the k nearest so far; (inf, -1) where there is none.

        What stands beyond a search's own topM means nothing.
        """
        ...
