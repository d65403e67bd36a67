"""Queue depths of live lanes: by a fit of a few bursts, and by stress test."""

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.support.live_lanes import LiveLanes
from heddle.app.assembly.lane_probe import LaneProbe, text_of
from heddle.costs.depth_probing import DepthProbing, Probe

QUERIES_MAX = 512
FEW = 5  # bursts that decide where all take less than this share of the SLO:
CLEAR = 0.8
NEAR = 1.3  # times the SLO: within it, a size gets another turn before it counts as too slow


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
    """One lane's stress test: sizes double until the SLO breaks, then halve what lies between.

    It ends within a query or 5 % of the first size that breaks it. A size that is just beyond the
    SLO gets another turn: one slow moment of the machine would end the climb for good. `size` is
    the next burst's, and at the end the depth, so that others keep their neighbour.

    Mutates: `take` goes on.
    """

    depth: int = 0
    size: int = 1
    broken_at: int = QUERIES_MAX + 1
    is_doubted: bool = False
    is_done: bool = False

    def take(self, share: float) -> None:
        """Take in what share of the SLO bursts of `size` took."""
        is_near = 1 < share <= NEAR
        self.is_doubted = is_near and not self.is_doubted
        if self.is_doubted:
            return
        if share <= 1:
            self.depth = self.size
        else:
            self.broken_at = self.size
        between = self.broken_at - self.depth
        self.is_done = between <= max(1, self.depth // 20)
        if self.is_done:
            self.size = max(1, self.depth)
        elif self.broken_at > QUERIES_MAX:
            self.size = min(2 * self.depth, QUERIES_MAX)
        else:
            self.size = self.depth + between // 2


class StressTest:
    """Makes bursts on some lanes at once larger until the SLO breaks at p95. (WindVE eqs. 7-10)

    Args:
        live: the lanes.
        names: which of them get bursts; a lane's bursts have its neighbours' beside them.
        slo_s: from sending a burst to its last answer [s].
        length: of each query [tokens].
        repeats: bursts of each size; fewer where they decide before.

    Mutates: `take_turn` goes on.
    """

    def __init__(
        self, live: LiveLanes, names: Sequence[str], slo_s: float, length: int, repeats: int
    ) -> None:
        self._probes = {p.name: LaneProbe(p, live.clock) for p in live.ports if p.name in names}
        self._climbs = {name: Climb() for name in self._probes}
        self._slo_s, self._length, self._repeats = slo_s, length, repeats
        self._made, self._seconds = 0, 0.0

    @property
    def is_done(self) -> bool:
        """Whether the depths of all lanes are found."""
        return all(climb.is_done for climb in self._climbs.values())

    @property
    def found(self) -> Stressed:
        """What was found so far."""
        depths = {name: climb.depth for name, climb in self._climbs.items()}
        return Stressed(depths, self._made, self._seconds)

    def take_turn(self) -> None:
        """Send bursts of the next sizes."""
        started_s = time.perf_counter()
        growing = [name for name, climb in self._climbs.items() if not climb.is_done]
        seconds = self._bursts(growing)
        for name in growing:
            self._climbs[name].take(self._p95_s(seconds[name]) / self._slo_s)
        self._seconds += time.perf_counter() - started_s

    def _bursts(self, growing: Sequence[str]) -> dict[str, list[float]]:
        """Return how long bursts of each lane's present size took, all lanes' at once [s]."""
        seconds: dict[str, list[float]] = {name: [] for name in self._probes}
        texts = {name: [text_of(self._length)] * c.size for name, c in self._climbs.items()}
        with ThreadPoolExecutor(len(self._probes)) as pool:
            for _ in range(self._repeats):
                sent = {n: pool.submit(probe.burst, texts[n]) for n, probe in self._probes.items()}
                for name, burst in sent.items():
                    seconds[name].append(burst.result().seconds)
                self._made += 1
                if all(self._is_decided(seconds[name]) for name in growing):
                    break
        return seconds

    def _p95_s(self, seconds: Sequence[float]) -> float:
        """Return the 95th percentile [s]; bursts that weren't needed count as the fastest one.

        So a size that two slow bursts decided is judged by the less slow of them, much as a whole
        turn with one far outlier would be.
        """
        unneeded = [min(seconds)] * (self._repeats - len(seconds))
        return float(np.quantile([*seconds, *unneeded], 0.95))

    def _is_decided(self, seconds: Sequence[float]) -> bool:
        """Whether more bursts would hardly change it: all are far within, or two are beyond."""
        is_clear = len(seconds) >= FEW and max(seconds) <= CLEAR * self._slo_s
        return is_clear or sum(one > self._slo_s for one in seconds) > 1


class Fits:
    """Fits all lanes for one SLO several times, each time anew. What a fit takes is a turn.

    Args:
        live: the lanes.
        slo_s: from sending a burst to its last answer [s].
        length: of each query [tokens].
        count: fits that are made.

    Mutates: `found` gets what each fit found, by the lane's name.
    """

    def __init__(self, live: LiveLanes, slo_s: float, length: int, count: int) -> None:
        self.found: list[dict[str, Fitted]] = []
        self._live, self._slo_s, self._length, self._count = live, slo_s, length, count

    @property
    def is_done(self) -> bool:
        """Whether all are made."""
        return len(self.found) == self._count

    def take_turn(self) -> None:
        """Fit once."""
        self.found.append(fit_lanes(self._live, (self._slo_s,), self._length))

    def depths(self, name: str) -> list[int]:
        """Return a lane's depth by each fit, in no order."""
        return [fits[name].depths[self._slo_s] for fits in self.found]


class TakesTurns(Protocol):
    """A measurement in parts."""

    @property
    def is_done(self) -> bool:
        """Whether no part is left."""
        ...

    def take_turn(self) -> None:
        """Measure the next part."""
        ...


def take_turns(measurements: Sequence[TakesTurns]) -> None:
    """Measure a part of each in turns to their end: a slow moment meets all of them."""
    while left := [one for one in measurements if not one.is_done]:
        for one in left:
            one.take_turn()


def within_bound(fitted: int, stressed: int) -> bool:
    """Whether a fit is as near to the stress test as the issue asks: one query or 10 %."""
    return abs(fitted - stressed) <= max(1, math.floor(0.1 * stressed))
