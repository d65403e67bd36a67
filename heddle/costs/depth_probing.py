"""Which bursts to time so that a lane's queue depth is known after a few."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from heddle.core.errors import ConfigError
from heddle.costs.batch_cost import BatchCost, BatchShape, LaneDepth, queue_depth
from heddle.costs.lane_cost import LaneCost, Sample
from heddle.costs.nonnegative_fit import fit_nonnegative

FIRST_SIZES = (1, 2, 4)  # queries: the fewest that separate slope from intercept
GROWTH_MAX = 4  # a burst's size over that of the largest one timed before


class Probe(NamedTuple):
    """A burst of queries and the time until the last was answered [s]."""

    queries: int
    seconds: float


@dataclass(slots=True)
class DepthProbing:
    """Chooses bursts and fits their times. Pure: its owner sends and times them.

    Three small bursts separate slope from intercept roughly; all others are as large as the
    depth is thought to be, where an error of the fit weighs least: a prediction between
    measured points is as certain as their mean.

    Args:
        slos_s: the time limits of interest, shortest first [s].
        length: tokens of a query.
        queries_max: the largest burst that may be tried.
        probes_max: bursts in all.
        time_s_max: what all of them together may take, as far as can be foretold [s].

    Mutates: `take` adds a probe.
    Raises: ConfigError: no SLO is given, or one isn't positive.
    Source: WindVE §IV-B2.
    """

    slos_s: tuple[float, ...]
    length: int
    queries_max: int
    probes_max: int = 15
    time_s_max: float = math.inf
    probes: list[Probe] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.slos_s or min(self.slos_s) <= 0:
            raise ConfigError(f"probing needs SLOs above 0 s, got {self.slos_s}")

    @property
    def seconds(self) -> float:
        """Return how long the bursts took so far [s]."""
        return sum(probe.seconds for probe in self.probes)

    def next(self) -> int | None:
        """Return the size of the next burst, None when it is enough."""
        made = len(self.probes)
        if made >= self.probes_max:
            return None
        if made < len(FIRST_SIZES):
            return min(FIRST_SIZES[made], self.queries_max)
        left_s = self.time_s_max - self.seconds
        slo_s = min(self._slo_in_turn_s(made), left_s)
        wanted = self.depth(slo_s).queries if slo_s > 0 else 0
        if wanted < 1 and left_s < self.probes[0].seconds:
            return None  # not even one query fits into the time that is left
        largest = max(probe.queries for probe in self.probes)
        return max(1, min(wanted, GROWTH_MAX * largest, self.queries_max))

    def _slo_in_turn_s(self, made: int) -> float:
        """Return the SLO that the next burst is for: two in three times the longest.

        There a query more is the smallest share of the time, so it needs the best estimate.
        """
        others = self.slos_s[:-1]
        if made % 3 == 0 and others:
            return others[made // 3 % len(others)]
        return self.slos_s[-1]

    def take(self, queries: int, seconds: float) -> None:
        """Take in what a burst took [s]."""
        self.probes.append(Probe(queries, seconds))

    def cost(self) -> BatchCost:
        """Return the cost that fits the bursts so far.

        Raises:
            ConfigError: nothing was timed yet.
        """
        if not self.probes:
            raise ConfigError("a lane's cost can't be fitted before a burst was timed")
        features = np.array([[1.0, probe.queries * self.length] for probe in self.probes])
        seconds = np.array([probe.seconds for probe in self.probes])
        intercept_s, token_s = fit_nonnegative(features, seconds)
        return BatchCost(float(intercept_s), float(token_s))

    def margin(self) -> float:
        """Return what 95 % of bursts keep, over the fit: at least 1. (`time_margin`)"""
        shapes = [BatchShape.uniform(probe.queries, self.length) for probe in self.probes]
        timed = zip(shapes, (probe.seconds for probe in self.probes), strict=True)
        return LaneCost.fitted("", [Sample(*sample) for sample in timed], 0.0).margin

    def depth(self, slo_s: float, margin: float = 1.0) -> LaneDepth:
        """Return the depth under an SLO, as the bursts so far tell; `margin` times what they do."""
        tokens_max = float(self.queries_max * self.length)
        return queue_depth(self.cost(), slo_s, self.length, margin=margin, tokens_max=tokens_max)
