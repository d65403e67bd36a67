"""Queue depths of live lanes: by a fit of few bursts, and by stress tests, alone and together."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from heddle.app.assembly.lane_probe import LaneProbe, text_of
from heddle.app.embedding_depths import DepthTable, FoundDepths
from heddle.costs.depth_climb import DepthClimb
from heddle.costs.depth_probing import DepthProbing, Probe

QUERIES_MAX: Final = 512
PROBES_MAX: Final = 15
FEW: Final = 5  # bursts that decide where all take less than this share of the SLO:
CLEAR: Final = 0.8
STEP_SHARE: Final = 8  # fine-tuning begins with steps of this part of the fitted depth

Probes = Mapping[str, LaneProbe]


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
    probe: LaneProbe, slos_s: Sequence[float], length: int, probes_max: int = PROBES_MAX
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
    probes: Probes, slos_s: Sequence[float], length: int, probes_max: int = PROBES_MAX
) -> dict[str, Fitted]:
    """Return what `fit_lane` finds for all lanes at the same time: each has its neighbours."""
    with ThreadPoolExecutor(len(probes)) as pool:
        futures = {
            name: pool.submit(fit_lane, probe, slos_s, length, probes_max)
            for name, probe in probes.items()
        }
        return {name: future.result() for name, future in futures.items()}


class StressTest:
    """Makes bursts on some lanes at once larger until the SLO breaks at p95. (WindVE eqs. 7-10)

    Args:
        probes: of the lanes that get bursts; a lane's bursts have its neighbours' beside them.
        slo_s: from sending a burst to its last answer [s].
        length: of each query [tokens].
        repeats: bursts of each size; fewer where they decide before.
        begin_at: the first size on each lane; None = one query.

    Mutates: `take_turn` goes on.
    """

    def __init__(
        self,
        probes: Probes,
        slo_s: float,
        length: int,
        repeats: int,
        begin_at: Mapping[str, int] | None = None,
    ) -> None:
        first = begin_at or dict.fromkeys(probes, 1)
        self._probes = probes
        self._climbs = {
            name: DepthClimb(QUERIES_MAX, first[name], max(1, first[name] // STEP_SHARE))
            for name in probes
        }
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

    def run(self) -> Stressed:
        """Test to the end; returns what was found."""
        while not self.is_done:
            self.take_turn()
        return self.found

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


def depth_table(
    probes: Probes, fitted: Mapping[str, int], slo_s: float, length: int, repeats: int
) -> DepthTable:
    """Return the three rows of WindVE's Table III for one SLO.

    Stress tests load one lane after the other. Fine-tuning begins at the fitted depths, loads all
    lanes at once, and refines each depth until a larger one would break the SLO.

    Args:
        probes: of all lanes, by name.
        fitted: their depths by a fit of few bursts.
        slo_s: from sending a burst to its last answer [s].
        length: of each query [tokens].
        repeats: bursts of each size.

    Source: WindVE §IV-B2, §V-C.
    """
    alone = {
        name: StressTest({name: probe}, slo_s, length, repeats).run().depths[name]
        for name, probe in probes.items()
    }
    tuned = StressTest(probes, slo_s, length, repeats, fitted).run().depths
    return DepthTable(
        slo_s,
        {name: FoundDepths(fitted[name], alone[name], tuned[name]) for name in probes},
    )
