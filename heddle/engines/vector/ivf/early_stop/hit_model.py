"""How many of the final hits a cluster still holds: a Poisson regression. Pure."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.early_stop.scans import Scans

TURNS: Final = (0, 1, 2, 4, 8, 16, 32)  # clusters scanned at the looks that a fit reads
RIDGE: Final = 1e-4
ITERATIONS: Final = 20
LOG_HITS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class HitModel:
    """Expected hits of a cluster: exp(weights · features). Shape: weights [f]."""

    weights: NDArray[np.float64]

    @classmethod
    def fitted(cls, scans: Scans) -> "HitModel":
        """Fit searches that scanned all their clusters, by a few of the looks at them."""
        chosen = np.flatnonzero(np.isin(scans.looks[:-1], TURNS)).tolist() or [0]
        parts = [scans.features(look) for look in chosen]
        features = np.concatenate([part.reshape(-1, part.shape[2]) for part in parts])
        hits = np.concatenate([scans.hits_ahead(look).ravel() for look in chosen])
        return cls(_poisson(features, hits.astype(np.float64)))

    def expected(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected hits of clusters by their features, [..., f] -> [...]."""
        return np.exp(np.minimum(features @ self.weights, LOG_HITS_MAX))

    def missing(self, scans: Scans) -> NDArray[np.float64]:
        """Return the recall that is expected to be missing at each look, [n, c]."""
        looks = range(len(scans.looks))
        ahead = [self.expected(scans.features(look)).sum(axis=1) for look in looks]
        return np.stack(ahead, axis=1) / scans.k


def _poisson(features: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights that make counts likeliest, by Newton's steps, halved where too long."""
    scale = np.maximum(np.abs(features).max(axis=0), 1e-9)
    features = features / scale
    ridge = RIDGE * len(counts) * np.eye(features.shape[1])
    weights: NDArray[np.float64] = np.zeros(features.shape[1])
    weights[0] = np.log(max(counts.mean(), 1e-6))

    def loss(weights: NDArray[np.float64]) -> float:
        logs = np.minimum(features @ weights, LOG_HITS_MAX)
        return float((np.exp(logs) - counts * logs).sum() + weights @ ridge @ weights / 2)

    before = loss(weights)
    for _ in range(ITERATIONS):
        means = np.exp(np.minimum(features @ weights, LOG_HITS_MAX))
        gradient = features.T @ (means - counts) + ridge @ weights
        step = np.linalg.solve((features.T * means) @ features + ridge, gradient)
        while loss(weights - step) > before and np.abs(step).max() > 1e-9:
            step /= 2
        weights = weights - step
        after = loss(weights)
        if before - after <= 1e-9 * abs(before):
            break
        before = after
    fitted: NDArray[np.float64] = weights / scale
    return fitted
