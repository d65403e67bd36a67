"""Which part of a corpus a worker searches."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError

SHARDS: Final = "shards"  # in the corpus directory


@dataclass(frozen=True, slots=True)
class Part:
    """The chunks whose id leaves `number` when divided by `of`: they spread evenly.

    Raises:
        ConfigError: there is no such part.
    """

    number: int = 0
    of: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.of:
            raise ConfigError(f"shard {self.number} of {self.of}: need 0 to {self.of - 1}")

    def holds(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which chunks are in it. Shapes: [n] -> [n]."""
        is_mine: NDArray[np.bool_] = chunk_ids % self.of == self.number
        return is_mine

    def directory(self, corpus: Path) -> Path:
        """Return where its index lies: beside the corpus's own, which has everything."""
        return corpus if self.of == 1 else corpus / SHARDS / f"{self.number}-of-{self.of}"


WHOLE = Part()
