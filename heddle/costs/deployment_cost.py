"""What an embedding service costs in devices, and what offloading saves. (WindVE §III)"""

import math
from dataclasses import dataclass

from heddle.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Deployment:
    """Devices an instance takes, and the price of one (any currency).

    Raises:
        ConfigError: a value is not positive.
    """

    devices: int = 1
    price: float = 1.0

    def __post_init__(self) -> None:
        _need_positive(devices=self.devices, price=self.price)

    def cost_by_throughput(self, queries_per_s: float, throughput: float) -> float:
        """Return the cost of serving an average rate: N/T · D · P. (eq. 5)"""
        _need_positive(throughput=throughput)
        return queries_per_s / throughput * self.devices * self.price

    def cost_by_concurrency(self, queries_peak: float, depth: float) -> float:
        """Return the cost of serving a peak in time: N_peak/C · D · P. (eq. 6)"""
        _need_positive(depth=depth)
        return queries_peak / depth * self.devices * self.price

    def devices_for_peak(self, queries_peak: int, depth: int) -> int:
        """Return how many whole devices serve a peak in time; eq. 6, rounded up to instances."""
        _need_positive(depth=depth)
        return math.ceil(queries_peak / depth) * self.devices


@dataclass(frozen=True, slots=True)
class Offloading:
    """What a slower lane adds to a faster one, by their depths under one SLO."""

    fast_depth: int
    slow_depth: int

    @property
    def concurrency_gain(self) -> float:
        """Return C_slow/C_fast, below α_fast/α_slow where β_slow > β_fast (eq. 19); 0 = nothing."""
        return self.slow_depth / self.fast_depth if self.fast_depth else 0.0

    @property
    def peak_saving(self) -> float:
        """Return the share of devices saved for a peak: C_slow/(C_fast + C_slow).

        Deviates: §III-B closes with C_CPU/C_NPU as the largest saving, which is the gain in
        concurrency; a deployment can't be cheapened by more than this share.
        """
        both = self.fast_depth + self.slow_depth
        return self.slow_depth / both if both else 0.0


def _need_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ConfigError(f"{name} must be positive, got {value}")
