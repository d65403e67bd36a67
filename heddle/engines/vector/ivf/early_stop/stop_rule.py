"""When a search may stop, so that its mean recall stays what was promised. Pure."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.engines.vector.ivf.early_stop.hit_model import HitModel
from heddle.engines.vector.ivf.early_stop.scans import Scans

LIMITS: Final = np.geomspace(1e-4, 2.0, 200)


@dataclass(frozen=True, slots=True, eq=False)
class StopRule:
    """A search stops as soon as its model expects no more than `limit` of its recall to be missing.

    The promise is on the mean over searches like those that it was calibrated on. A limit below
    zero stops none before its last cluster.
    """

    model: HitModel
    limit: float

    @classmethod
    def calibrated(cls, fitted_on: Scans, scans: Scans, target: float) -> "StopRule":
        """Fit a model on some searches and find its limit on others, for a mean recall.

        Source: Angelopoulos et al., Conformal Risk Control (2022): the loss of a search, its
            missing recall, is at most 1 and only grows with the limit, so the largest limit whose
            risk keeps (n * risk + 1) / (n + 1) <= 1 - target keeps the promise on the next one.

        Raises:
            ConfigError: the target is no share in (0, 1).
        """
        if not 0 < target < 1:
            raise ConfigError(f"target recall: need more than 0 and less than 1, got {target}")
        model = HitModel.fitted(fitted_on)
        missing, recall = model.missing(scans), scans.recall
        searches = np.arange(len(recall))
        kept = -1.0
        for limit in LIMITS.tolist():
            risk = float((1 - recall[searches, stops(missing, limit)]).mean())
            if (len(recall) * risk + 1) / (len(recall) + 1) > 1 - target:
                break
            kept = limit
        return cls(model, kept)

    def stops(self, scans: Scans) -> NDArray[np.int64]:
        """Return at which look each search stops, [n]."""
        return stops(self.model.missing(scans), self.limit)


def stops(missing: NDArray[np.float64], limit: float) -> NDArray[np.int64]:
    """Return the first look at which no more than `limit` is expected to be missing, [n].

    Shapes: missing [n, c], at each look.
    """
    may_stop = missing <= limit
    may_stop[:, -1] = True  # nothing is left to scan
    looks: NDArray[np.int64] = np.argmax(may_stop, axis=1)
    return looks
