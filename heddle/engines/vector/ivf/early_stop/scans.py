"""What scanning clusters one after the other brings to light. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

FAR: Final = 2.0  # on the unit sphere nothing is farther
FEATURES: Final = 7  # of a cluster, by which its hits are expected
AHEAD: Final = 64  # clusters that are looked at of those to come; the others hardly count


@dataclass(frozen=True, slots=True, eq=False)
class Scans:
    """Searches that scanned all their clusters in order, and were looked at in between.

    Shapes (n searches of w clusters, looked at c times): looks [c] clusters scanned until each,
    ascending, the last w; distances [n, w] from the query to the centroid; sizes [n, w] vectors;
    bonuses [n, w] see `history_bonus`; hits [n, w] how many of the k wanted each cluster holds that
    were not known before; kth [n, c] distance to the k-th nearest vector that is known, at most
    `FAR`; recall [n, c] share of the k wanted that is known, never falling. All distances are
    plain, not squared.
    """

    k: int
    looks: NDArray[np.int64]
    distances: NDArray[np.float64]
    sizes: NDArray[np.int64]
    bonuses: NDArray[np.float64]
    hits: NDArray[np.int64]
    kth: NDArray[np.float64]
    recall: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Sequence["Scans"]) -> "Scans":
        """Return the searches of several, all of one k and looked at after as many clusters."""
        return cls(
            parts[0].k,
            parts[0].looks,
            np.concatenate([part.distances for part in parts]),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.bonuses for part in parts]),
            np.concatenate([part.hits for part in parts]),
            np.concatenate([part.kth for part in parts]),
            np.concatenate([part.recall for part in parts]),
        )

    def part(self, rows: NDArray[np.int64]) -> "Scans":
        """Return some of the searches."""
        return Scans(
            self.k,
            self.looks,
            self.distances[rows],
            self.sizes[rows],
            self.bonuses[rows],
            self.hits[rows],
            self.kth[rows],
            self.recall[rows],
        )

    def features(self, look: int) -> NDArray[np.float64]:
        """Return what is known at a look about each cluster ahead, [n, a, f]."""
        ahead = self._ahead(look)
        return features_of(
            self.distances[:, ahead],
            self.distances.min(axis=1, keepdims=True),
            self.kth[:, look, None],
            self.sizes[:, ahead],
            self.bonuses[:, ahead],
        )

    def hits_ahead(self, look: int) -> NDArray[np.int64]:
        """Return how many wanted hits each of these clusters holds, [n, a]."""
        return self.hits[:, self._ahead(look)]

    def _ahead(self, look: int) -> slice:
        first = int(self.looks[look])
        return slice(first, first + AHEAD)


def features_of(
    distances: NDArray[np.float64],
    nearest: NDArray[np.float64],
    kth: NDArray[np.float64],
    sizes: NDArray[np.int64],
    bonuses: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the features that predict how many hits clusters hold, [n, a, f].

    Shapes: distances, sizes and bonuses of the clusters [n, a]; of each search the distance of its
    nearest centroid and of its k-th nearest vector so far [n, 1].
    """
    features = np.empty((*distances.shape, FEATURES))
    beyond = distances - kth
    features[..., 0] = 1.0
    features[..., 1] = beyond
    features[..., 2] = beyond**2
    features[..., 3] = distances / np.maximum(nearest, 1e-9)
    features[..., 4] = kth
    features[..., 5] = np.log1p(sizes)
    features[..., 6] = bonuses
    return features
