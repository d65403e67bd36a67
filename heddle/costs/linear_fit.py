"""A lane's cost model: recursive least squares over the features of its own steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heddle.core.cost_snapshot import CostSnapshot

PRIOR_WEIGHT = 1e-3  # how firmly the prior holds against the first few samples


@dataclass(slots=True)
class LinearFit:
    """Fit seconds = coefficients · features online, forgetting old steps.

    Args:
        lane: the lane the fit belongs to.
        prior_s: a first guess, seconds for one unit of each feature; its keys are the features.
        forgetting: weight of the past at each new sample, in (0, 1].

    Shapes: `_coefficients` [f]; `_covariance` [f, f]; both float64, scaled by the prior.
    """

    lane: str
    prior_s: Mapping[str, float]
    forgetting: float = 0.995
    samples: int = 0
    _coefficients: NDArray[np.float64] = field(init=False)
    _covariance: NDArray[np.float64] = field(init=False)
    _scale: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        # Features differ by orders of magnitude (calls, tokens, vectors): scaled by the prior,
        # every coefficient starts at 1 and the updates stay well conditioned.
        self._scale = np.array([max(s, 1e-12) for s in self.prior_s.values()])
        self._coefficients = np.ones(len(self._scale))
        self._covariance = np.eye(len(self._scale)) / PRIOR_WEIGHT

    def observe(self, features: Mapping[str, float], seconds: float) -> None:
        """Fold one step in. Unknown features are ignored; negative times are refused."""
        assert seconds >= 0, f"a step took {seconds} s"
        row = self._row(features)
        # Weighting by 1/seconds makes the error relative, so long steps don't drown short ones.
        weight = 1.0 / max(seconds, 1e-6)
        row, target = row * weight, seconds * weight
        gain_row = self._covariance @ row
        gain = gain_row / (self.forgetting + row @ gain_row)
        self._coefficients = self._coefficients + gain * (target - row @ self._coefficients)
        covariance = (self._covariance - np.outer(gain, gain_row)) / self.forgetting
        # Directions that are never excited would blow up under forgetting: cap the trace.
        limit = len(self._scale) / PRIOR_WEIGHT
        trace = float(np.trace(covariance))
        self._covariance = covariance * min(1.0, limit / trace) if trace > 0 else covariance
        self.samples += 1

    def predict_s(self, features: Mapping[str, float]) -> float:
        """Return the predicted length of a step [s], never negative."""
        return max(0.0, float(self._row(features) @ np.maximum(self._coefficients, 0.0)))

    def snapshot(self) -> CostSnapshot:
        """Return the model as it stands, with negative coefficients read as zero."""
        values = np.maximum(self._coefficients, 0.0) * self._scale
        named = dict(zip(self.prior_s, map(float, values), strict=True))
        return CostSnapshot(self.lane, self.samples, named, self.samples)

    def _row(self, features: Mapping[str, float]) -> NDArray[np.float64]:
        return np.array([features.get(name, 0.0) for name in self.prior_s]) * self._scale
