"""Target stops that keep what the sample that was run again last brought to light."""

from typing import Any

from heddle.engines.vector.ivf.early_stop.scans import Scans
from heddle.engines.vector.ivf.early_stop.target_stops import TargetStops


class NotedStops(TargetStops):
    """`newest` is the search that a calibration took in last, None before the first."""

    newest: Scans | None = None

    def _scan(self, *sample: Any) -> Scans:
        self.newest = super()._scan(*sample)
        return self.newest
