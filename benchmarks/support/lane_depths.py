"""Queue depths of live lanes: by a fit of a few bursts, and by stress test."""

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from benchmarks.support.live_lanes import LiveLanes
from heddle.app.lane_probe import WORD, LaneProbe
from heddle.costs.depth_probing import DepthProbing

QUERIES_MAX = 512


@dataclass(frozen=True, slots=True)
class Fitted:
    """A lane by a few bursts: α and β, depths by SLO, and what finding them took."""

    latency_slope_s: float
    latency_intercept_s: float
    depths: Mapping[float, int]
    probes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Stressed:
    """Depths by stress test at one SLO, and what finding them took."""

    depths: Mapping[str, int]
    probes: int
    seconds: float


def query(length: int) -> str:
    """Return a text of about so many tokens, its number and the special ones included."""
    return WORD * max(1, length - 4)


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
        len(probing.probes),
        probing.seconds,
    )


def stress(
    live: LiveLanes, names: Sequence[str], slo_s: float, length: int, repeats: int
) -> Stressed:
    """Make bursts larger until the SLO breaks at p95, on all lanes at once. (WindVE eqs. 7-10)

    A lane that has broken it goes on at its depth, so that the others keep their neighbour.
    """
    probes = {port.name: LaneProbe(port, live.clock) for port in live.ports if port.name in names}
    depths = dict.fromkeys(probes, 0)
    sizes = dict.fromkeys(probes, 1)
    growing = set(probes)
    made, started_s = 0, time.perf_counter()
    while growing:
        p95_s = _p95_s(probes, sizes, length, repeats)
        made += repeats
        for name in sorted(growing):
            if p95_s[name] > slo_s or sizes[name] >= QUERIES_MAX:
                growing.discard(name)
                sizes[name] = max(1, depths[name])
            else:
                depths[name] = sizes[name]
                sizes[name] += max(1, sizes[name] // 10)
    return Stressed(depths, made, time.perf_counter() - started_s)


def _p95_s(
    probes: Mapping[str, LaneProbe], sizes: Mapping[str, int], length: int, repeats: int
) -> dict[str, float]:
    """Return the 95th percentile of each lane's bursts, all lanes' at the same time [s]."""
    seconds: dict[str, list[float]] = {name: [] for name in probes}
    with ThreadPoolExecutor(len(probes)) as pool:
        for _ in range(repeats):
            bursts = {
                name: pool.submit(probe.burst, [query(length)] * sizes[name])
                for name, probe in probes.items()
            }
            for name, burst in bursts.items():
                seconds[name].append(burst.result().seconds)
    return {name: float(np.quantile(found, 0.95)) for name, found in seconds.items()}


def within_bound(fitted: int, stressed: int) -> bool:
    """Whether a fit is as near to the stress test as the issue asks: one query or 10 %."""
    return abs(fitted - stressed) <= max(1, math.floor(0.1 * stressed))
