"""One way to search real vectors, at several settings: hits and times."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

K: Final = 10

Vectors = NDArray[np.float32]
Labels = NDArray[np.int64]
Search = Callable[[NDArray[np.float32], int], Labels]
"""Queries [n, d] and a setting -> the ids of the K nearest, [n, K]."""


@dataclass(slots=True)
class Method:
    """One way to search, at several settings. Mutates: the measured times and results."""

    name: str
    search: Search
    settings: tuple[int, ...]
    seconds: dict[int, list[float]] = field(default_factory=dict)
    labels: dict[int, Labels] = field(default_factory=dict)

    def rows(self, nearest: Labels) -> Iterable[dict[str, Any]]:
        """Yield its hits at each setting, beside the nearest, [n, K]."""
        for setting in self.settings:
            found = self.labels[setting]
            hits = (found[:, :, None] == nearest[:, None, :]).any(axis=2)
            seconds = statistics.median(self.seconds[setting])
            yield {
                "method": self.name,
                "setting": setting,
                "recall": float(hits.mean()),
                "qps": len(found) / seconds,
                "equal_sets": float(hits.all(axis=1).mean()),
            }

    def share_compared(self, queries: Vectors) -> float:
        """Return the share of all coordinates that it compares before vectors are out."""
        counts = faiss.cvar.indexPanorama_stats
        counts.reset()
        self.search(queries, self.settings[-1])
        return float(counts.total_dims_scanned / counts.total_dims)


def qps_at(recall: float, rows: Sequence[dict[str, Any]]) -> float | None:
    """Return queries/s at a recall between two settings, or None where none lies on each side."""
    ordered = sorted(rows, key=lambda row: row["recall"])
    for low, high in itertools.pairwise(ordered):
        if low["recall"] <= recall <= high["recall"] and low["recall"] < high["recall"]:
            share = (recall - low["recall"]) / (high["recall"] - low["recall"])
            return math.exp((1 - share) * math.log(low["qps"]) + share * math.log(high["qps"]))
    return None
