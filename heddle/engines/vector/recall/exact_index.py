"""What the self-check asks of an index, besides what every search does."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Piece(NamedTuple):
    """How far an exact comparison is: where its next piece begins, 0 = it is over.

    `compared` counts the vectors of the piece.
    """

    next: int
    compared: int


class ExactIndex(Protocol):
    """An index whose searches can be run again exactly.

    Shapes: queries [n, d] float32, prepared as for a scan.
    """

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        ...

    def compare_piece(
        self,
        query: NDArray[np.float32],
        first: int,
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> Piece:
        """Compare a query with the next vectors exactly; updates its k nearest chunks in place.

        Shapes: query [1, d]; distances and labels [1, k], from (inf, -1) on, in any order.
        """
        ...
