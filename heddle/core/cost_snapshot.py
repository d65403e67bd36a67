"""A lane's own cost model, frozen, as it travels in frames."""

from collections.abc import Mapping
from typing import NamedTuple


class CostSnapshot(NamedTuple):
    """Linear cost of a step: seconds = sum of coefficient · feature.

    `coefficients_s` maps a feature's name to seconds for one unit of it; the feature `call` is
    1 in every step. `version` grows with every refit; `samples` says how many steps it saw.
    """

    lane: str
    version: int
    coefficients_s: Mapping[str, float]
    samples: int = 0

    def predict_s(self, features: Mapping[str, float]) -> float:
        """Return the predicted length of a step with these features [s]."""
        return sum(self.coefficients_s.get(name, 0.0) * value for name, value in features.items())
