"""What scanning clusters one after the other brings to light. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

FAR: Final = 2.0  # on the unit sphere nothing is farther


@dataclass(frozen=True, slots=True, eq=False)
class Scans:
    """Searches, cluster by cluster in their order.

    Shapes (n searches of w clusters): distances [n, w] from the query to the centroid; sizes
    [n, w] vectors; bonuses [n, w] see `history_bonus`; kth [n, w + 1] distance to the k-th nearest
    vector that is known after 0 to w clusters, at most `FAR`; found [n, w + 1] how many of the
    final k hits are known then; all distances are plain, not squared.
    """

    k: int
    distances: NDArray[np.float64]
    sizes: NDArray[np.int64]
    bonuses: NDArray[np.float64]
    kth: NDArray[np.float64]
    found: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence["Scans"], k: int) -> "Scans":
        """Return the searches of several, all of as many clusters."""
        return cls(
            k,
            np.concatenate([part.distances for part in parts]),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.bonuses for part in parts]),
            np.concatenate([part.kth for part in parts]),
            np.concatenate([part.found for part in parts]),
        )

    @property
    def recall(self) -> NDArray[np.float64]:
        """Share of the final hits that is known after 0 to w clusters, [n, w + 1]."""
        return self.found / self.found[:, -1:]

    def part(self, rows: NDArray[np.int64]) -> "Scans":
        """Return some of the searches."""
        return Scans(
            self.k,
            self.distances[rows],
            self.sizes[rows],
            self.bonuses[rows],
            self.kth[rows],
            self.found[rows],
        )

    def features(self, turn: int) -> NDArray[np.float64]:
        """Return what is known after `turn` clusters about each one to come, [n, w - turn, f]."""
        distances = self.distances[:, turn:]
        kth = np.broadcast_to(self.kth[:, turn, None], distances.shape)
        beyond = distances - kth
        nearest = self.distances.min(axis=1, keepdims=True)
        columns = (
            np.ones_like(distances),
            beyond,
            beyond**2,
            distances / np.maximum(nearest, 1e-9),
            kth,
            np.log1p(self.sizes[:, turn:]),
            self.bonuses[:, turn:],
        )
        return np.stack(columns, axis=2)

    def hits(self, turn: int) -> NDArray[np.int64]:
        """Return how many further final hits each cluster from `turn` on brings, [n, w - turn]."""
        return np.diff(self.found[:, turn:], axis=1)


def scan_in_turns(
    distances: NDArray[np.float32], turn: NDArray[np.int64], turns: int, k: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the `kth` and `found` of one search, [turns + 1] each.

    Args:
        distances: from the query to each vector that its clusters hold, [m].
        turn: with which cluster, from 1 on, each comes to light; 0 = it is known before.
        turns: how many clusters there are.
        k: hits wanted.
    """
    by_turn = np.argsort(turn, kind="stable")
    ends = np.searchsorted(turn[by_turn], np.arange(turns + 1), side="right")
    final = np.argsort(distances, kind="stable")[:k]
    kth = np.full(turns + 1, FAR)
    found = np.zeros(turns + 1, np.int64)
    nearest, first = np.zeros(0, np.float32), 0
    for after, stop in enumerate(ends.tolist()):
        nearest = np.sort(np.concatenate([nearest, distances[by_turn[first:stop]]]))[:k]
        if len(nearest) == k:
            kth[after] = min(FAR, float(nearest[-1]))
        found[after] = np.count_nonzero(turn[final] <= after)
        first = stop
    return kth, found
