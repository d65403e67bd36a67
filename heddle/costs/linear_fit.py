"""A lane's cost model: recursive least squares over the features of its own steps."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.cost_snapshot import CostSnapshot

PRIOR_WEIGHT: Final = 1e-3  # how firmly the prior holds against the first few samples
SECONDS_MIN: Final = 1e-6  # a clock that shows less says nothing
SURPRISE: Final = 1.3  # times the prediction, or its inverse, in ...
SURPRISES: Final = 6  # ... this many samples one after another: the device has changed ...
LEARNT: Final = 10  # samples; before, surprises only mean that the prior was wrong
CHANGE_MAX: Final = 10.0  # ... by this factor at most; what is left is the next surprise


@dataclass(slots=True)
class LinearFit:
    """Fit seconds = coefficients · features online, forgetting old steps.

    A sample makes room for itself: what is forgotten is what was known of the combination of
    features that it has. So lanes whose features always move together follow their device as
    others do, and a feature that isn't met for a while keeps its cost. Where a device has become
    faster or slower as a whole, all costs are scaled at once.

    Args:
        lane: the lane the fit belongs to.
        prior_s: a first guess, seconds for one unit of each feature; its keys are the features.
        forgetting: weight of what is known of a combination at each new sample of it, in (0, 1].

    Shapes: `_coefficients` [f]; `_root` [f, f], of the covariance; float64, scaled by the prior.
    Source: Kulhavy, Restricted exponential forgetting in real-time identification, Automatica 23
        (1987); the scaling is ours.
    """

    lane: str
    prior_s: Mapping[str, float]
    forgetting: float = 0.97
    samples: int = 0
    _coefficients: NDArray[np.float64] = field(init=False)
    _root: NDArray[np.float64] = field(init=False)
    _scale: NDArray[np.float64] = field(init=False)
    _ratios: deque[float] = field(default_factory=lambda: deque(maxlen=SURPRISES))

    def __post_init__(self) -> None:
        # Features differ by orders of magnitude (calls, tokens, vectors): scaled by the prior,
        # every coefficient starts at 1 and the updates stay well conditioned.
        self._scale = np.array([max(s, 1e-12) for s in self.prior_s.values()])
        self._coefficients = np.ones(len(self._scale))
        self._root = np.eye(len(self._scale)) / sqrt(PRIOR_WEIGHT)

    def observe(self, features: Mapping[str, float], seconds: float) -> None:
        """Fold one step in. Unknown features are ignored; negative times are refused."""
        assert seconds >= 0, f"a step took {seconds} s"
        seconds = max(seconds, SECONDS_MIN)
        predicted_s = self._scaled_by_change(features, seconds)
        # Weighting by 1/seconds makes the error relative: long steps don't drown short ones. A
        # step that was surprisingly short counts no more than one that wasn't.
        weight = 1.0 / max(seconds, predicted_s / SURPRISE)
        row, target = self._row(features) * weight, seconds * weight
        # Of the covariance only a root is kept, so that no rounding makes a variance negative.
        part = row @ self._root
        spread, variance = self._root @ part, float(part @ part)
        if variance > 0:
            error = target - row @ self._coefficients
            self._coefficients = self._coefficients + spread * (error / (1 + variance))
            kept = 1 / (self.forgetting * (1 + variance))  # of the variance; 1 once it is settled
            self._root = self._root - np.outer(spread, part * ((1 - sqrt(kept)) / variance))
        self.samples += 1

    def predict_s(self, features: Mapping[str, float]) -> float:
        """Return the predicted length of a step [s], never negative."""
        return max(0.0, float(self._row(features) @ np.maximum(self._coefficients, 0.0)))

    def snapshot(self) -> CostSnapshot:
        """Return the model as it stands, with negative coefficients read as zero."""
        values = np.maximum(self._coefficients, 0.0) * self._scale
        named = dict(zip(self.prior_s, map(float, values), strict=True))
        return CostSnapshot(self.lane, self.samples, named, self.samples)

    def _scaled_by_change(self, features: Mapping[str, float], seconds: float) -> float:
        """Scale all costs if the newest steps say so; return this step's prediction [s]."""
        predicted_s = self.predict_s(features)
        if predicted_s <= 0 or self.samples < LEARNT:
            return predicted_s  # no scale makes nothing longer
        self._ratios.append(seconds / max(predicted_s, SECONDS_MIN))
        is_slower, is_faster = min(self._ratios) > SURPRISE, max(self._ratios) < 1 / SURPRISE
        if len(self._ratios) < SURPRISES or not (is_slower or is_faster):
            return predicted_s
        change = min(max(median(self._ratios), 1 / CHANGE_MAX), CHANGE_MAX)
        self._scale = self._scale * change
        self._ratios.clear()
        return predicted_s * change

    def _row(self, features: Mapping[str, float]) -> NDArray[np.float64]:
        return np.array([features.get(name, 0.0) for name in self.prior_s]) * self._scale
