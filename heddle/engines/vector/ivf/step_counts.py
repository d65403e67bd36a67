"""What a step over inverted lists did: the features of its cost model."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

PRIOR_S: Mapping[str, float] = MappingProxyType(
    {
        "call": 6e-5,
        "lists": 1.5e-6,
        "vectors": 1.2e-7,
        "ridden": 2e-8,
        "scans": 1e-5,
        "rows": 1e-4,
        "compared": 6e-8,
        "stored": 1e-4,
        "followed": 3e-5,
    }
)
"""Seconds for a step, a list that is read, a vector read from it, a vector compared with a further
query that shares the list, a row that scans anything in this step, a row's coarse search, a vector
compared for a filter, one stored, and one brought into the index: a 384-d index on one core, before
anything is measured."""


@dataclass(slots=True)
class StepCounts:
    """The counts of one step. Mutates: its parts add to it as they go."""

    lists: int = 0
    vectors: int = 0
    ridden: int = 0
    scans: int = 0
    rows: int = 0
    compared: int = 0

    def features(self) -> dict[str, float]:
        """Return the counts by the names that the cost model knows."""
        return {
            "lists": self.lists,
            "vectors": self.vectors,
            "ridden": self.ridden,
            "scans": self.scans,
            "rows": self.rows,
            "compared": self.compared,
        }
