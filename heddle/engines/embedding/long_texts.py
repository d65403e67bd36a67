"""What becomes of texts that are longer than the model takes."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray


class LongTexts(Enum):
    """Cut to the model's length, or read in windows of it; the result counts either."""

    CUT = "cut"
    WINDOW = "window"


@dataclass(slots=True)
class WindowMean:
    """The vector of a text in windows: their mean, weighted by tokens, of length 1.

    Mutates: `take` adds a window's vector.
    """

    total: NDArray[np.float32]
    missing: int
    tokens: int = 0

    def take(self, vector: NDArray[np.float32], tokens: int) -> None:
        """Take in a window's vector [d]."""
        self.total += tokens * vector
        self.tokens += tokens
        self.missing -= 1

    def vector(self) -> NDArray[np.float32]:
        """Return the mean [d]; opposite windows, whose mean has no direction, give zeros."""
        length = float(np.linalg.norm(self.total))
        mean: NDArray[np.float32] = self.total / max(length, float(np.finfo(np.float32).tiny))
        return mean
