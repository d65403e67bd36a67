"""Queue depths of live lanes: by a fit of a few bursts, and by stress test."""

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from benchmarks.support.live_lanes import LiveLanes
from heddle.app.lane_probe import LaneProbe, text_of
from heddle.costs.depth_probing import DepthProbing, Probe

QUERIES_MAX = 512


@dataclass(frozen=True, slots=True)
class Fitted:
    """A lane by a few bursts: α and β, depths by SLO, and the bursts that told them."""

    latency_slope_s: float
    latency_intercept_s: float
    depths: Mapping[float, int]
    bursts: tuple[Probe, ...]

    @property
    def seconds(self) -> float:
        """Return how long the bursts took [s]."""
        return sum(burst.seconds for burst in self.bursts)


@dataclass(frozen=True, slots=True)
class Stressed:
    """Depths by stress test at one SLO, and what finding them took."""

    depths: Mapping[str, int]
    probes: int
    seconds: float


def fit_lane(
    probe: LaneProbe, slos_s: Sequence[float], length: int, probes_max: int = 15
) -> Fitted:
    """Return a lane's depths at p95, from a few bursts."""
    probing = DepthProbing(tuple(slos_s), length, QUERIES_MAX, probes_max)
    probe.find_depths(probing)
    cost = probing.cost()
    margin = probing.margin()
    return Fitted(
        cost.latency_slope_s(length),
        cost.latency_intercept_s,
        {slo_s: probing.depth(slo_s, margin=margin).queries for slo_s in slos_s},
        tuple(probing.probes),
    )


def fit_lanes(
    live: LiveLanes, slos_s: Sequence[float], length: int, probes_max: int = 15
) -> dict[str, Fitted]:
    """Return what `fit_lane` finds for all lanes at the same time: each has its neighbours."""
    with ThreadPoolExecutor(len(live.ports)) as pool:
        futures = {
            port.name: pool.submit(fit_lane, live.probe(index), slos_s, length, probes_max)
            for index, port in enumerate(live.ports)
        }
        return {name: future.result() for name, future in futures.items()}


@dataclass(slots=True)
class Climb:
    """One lane's stress test: sizes double until the SLO breaks, then grow by a tenth from before.

    `size` is the next burst's, and at the end the depth, so that others keep their neighbour.

    Mutates: `take` goes on.
    """

    depth: int = 0
    size: int = 1
    broken_at: int = QUERIES_MAX + 1
    is_done: bool = False

    def take(self, *, kept: bool) -> None:
        """Take in whether bursts of `size` kept the SLO."""
        if kept:
            self.depth = self.size
        else:
            self.broken_at = self.size
        has_broken = self.broken_at <= QUERIES_MAX
        self.size = self.depth + max(1, self.depth // 10 if has_broken else self.depth)
        if self.size >= self.broken_at:
            self.is_done, self.size = True, max(1, self.depth)


def stress(
    live: LiveLanes, names: Sequence[str], slo_s: float, length: int, repeats: int
) -> Stressed:
    """Make bursts larger until the SLO breaks at p95, on all lanes at once. (WindVE eqs. 7-10)"""
    probes = {port.name: LaneProbe(port, live.clock) for port in live.ports if port.name in names}
    climbs = {name: Climb() for name in probes}
    made, started_s = 0, time.perf_counter()
    while growing := {name: climb for name, climb in climbs.items() if not climb.is_done}:
        sizes = {name: climb.size for name, climb in climbs.items()}
        p95_s = _p95_s(probes, sizes, length, repeats)
        made += repeats
        for name, climb in growing.items():
            climb.take(kept=p95_s[name] <= slo_s)
    depths = {name: climb.depth for name, climb in climbs.items()}
    return Stressed(depths, made, time.perf_counter() - started_s)


def _p95_s(
    probes: Mapping[str, LaneProbe], sizes: Mapping[str, int], length: int, repeats: int
) -> dict[str, float]:
    """Return the 95th percentile of each lane's bursts, all lanes' at the same time [s]."""
    seconds: dict[str, list[float]] = {name: [] for name in probes}
    with ThreadPoolExecutor(len(probes)) as pool:
        for _ in range(repeats):
            bursts = {
                name: pool.submit(probe.burst, [text_of(length)] * sizes[name])
                for name, probe in probes.items()
            }
            for name, burst in bursts.items():
                seconds[name].append(burst.result().seconds)
    return {name: float(np.quantile(found, 0.95)) for name, found in seconds.items()}


def within_bound(fitted: int, stressed: int) -> bool:
    """Whether a fit is as near to the stress test as the issue asks: one query or 10 %."""
    return abs(fitted - stressed) <= max(1, math.floor(0.1 * stressed))
