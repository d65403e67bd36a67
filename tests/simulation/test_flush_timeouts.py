"""Why a server's pool has flush timeouts of 0: searches that wait for others gain nothing.

Trinity §3.3 lets a partial batch wait for up to tau. On virtual time, at the costs that the engine
begins with, as many searches are answered and none of them sooner.
"""

import numpy as np
import pytest

from heddle.core.commands import Admit
from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.step_counts import PRIOR_S
from heddle.engines.vector.pool.build import stage_of
from heddle.engines.vector.pool.engine import PoolEngine
from heddle.engines.vector.pool.kv_link import KvLink
from heddle.engines.vector.pool.limits import PREFILL_SLO_S, PoolKnobs
from heddle.engines.vector.pool.meters import PoolMeters
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.pool.requests import Stage
from heddle.engines.vector.pool.scheduler import PoolScheduler
from heddle.simulator.cost_model_vector import CostModelScanner, SimulatedCorpus
from heddle.simulator.pool_device import PoolDevice
from heddle.simulator.timeline import Timeline

NLIST, LIST_SIZE, NPROBE, SLOTS = 500, 600, 100, 4
STEP_S = 2e-3  # in longer ones, a search that waits for the next one waits long anyway
LOAD, SEARCHES, SEEDS = 0.85, 600, range(3)
ALONE_S = PRIOR_S["rows"] + NPROBE * (PRIOR_S["lists"] + LIST_SIZE * PRIOR_S["vectors"])
TIMEOUTS_S = [(2e-3, 2e-3), (2e-3, 8e-3)]


class Clock:
    """Time that only passes where somebody lets it."""

    time_s = 0.0

    def now_s(self):
        return self.time_s


class FreeDevice:
    """A device on which nothing takes time."""

    def run(self, seconds):
        pass


class PricedScanner(CostModelScanner):
    """Takes for a step what the engine's cost model says; a list that several want is read once."""

    def __init__(self, clock, *, shares_lists):
        super().__init__(FreeDevice(), nlist=NLIST)
        self.shares_lists, self._clock = shares_lists, clock
        self.list_sizes = np.full(NLIST, LIST_SIZE, np.int64)

    def coarse(self, queries, nprobe):
        self._clock.time_s += PRIOR_S["rows"] * len(queries)
        return super().coarse(queries, nprobe)

    def scan(self, queries, lists, distances, labels, allowed=None):
        scanned = lists[lists >= 0]
        read = len(np.unique(scanned)) if self.shares_lists else len(scanned)
        vectors, ridden = read * LIST_SIZE, (len(scanned) - read) * LIST_SIZE
        counts = {"lists": read, "vectors": vectors, "ridden": ridden, "scans": len(queries)}
        self._clock.time_s += PRIOR_S["call"] + sum(PRIOR_S[n] * c for n, c in counts.items())
        distances[:], labels[:] = 0.5, 1


def served(prefill_wait_s, wait_s, *, shares_lists, seed):
    """Return the mean and 95th percentile of prefill searches' times [s], and searches a second."""
    clock = Clock()
    scanner = PricedScanner(clock, shares_lists=shares_lists)
    pool = PoolEngine(
        ivf_engine(
            "vector", 1, SimulatedCorpus(scanner, FreeDevice()), clock, substage_budget_s=STEP_S
        ),
        stage_of,
        PoolScheduler(SLOTS, knobs=PoolKnobs(0.5, prefill_wait_s, wait_s)),
        prefill_slo_s=PREFILL_SLO_S,
        kv_link=KvLink(0),
        meters=PoolMeters(ALONE_S / NPROBE),
    )
    rng = np.random.default_rng(seed)
    arrivals_s = np.cumsum(rng.exponential(ALONE_S / LOAD, SEARCHES))
    is_decode = rng.random(SEARCHES) < 0.5
    queries = rng.standard_normal((SEARCHES, 1, 4)).astype(np.float32)
    times_s, came = {}, 0
    while len(times_s) < SEARCHES:
        if not pool.has_work:
            clock.time_s = max(clock.time_s, arrivals_s[came])
        while came < SEARCHES and arrivals_s[came] <= clock.time_s:
            payload = SearchPayload(
                queries[came], 5, nprobe=NPROBE, while_decoding=bool(is_decode[came])
            )
            kind, identity = PrimitiveKind.SEARCHING, Identity(came, "search")
            pool.apply(Admit(Task(came, kind, identity, payload), 0))
            came += 1
        for event in pool.step(clock.now_s(), float("inf")).events:
            assert isinstance(event, Done), event
            times_s[event.task_id] = clock.time_s - arrivals_s[event.task_id]
    of_prefill = [times_s[n] for n in range(SEARCHES) if not is_decode[n]]
    return np.array([np.mean(of_prefill), np.quantile(of_prefill, 0.95), SEARCHES / clock.time_s])


@pytest.mark.slow
@pytest.mark.parametrize(
    "timeouts_s", [TIMEOUTS_S[0], pytest.param(TIMEOUTS_S[1], marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("shares_lists", [True, False])
def test_on_the_engines_costs_waiting_gains_nothing(shares_lists, timeouts_s):
    at_once, waiting = (
        np.mean([served(*flush_s, shares_lists=shares_lists, seed=seed) for seed in SEEDS], axis=0)
        for flush_s in ((0.0, 0.0), timeouts_s)
    )
    mean_ratio, p95_ratio, throughput_ratio = waiting / at_once
    assert throughput_ratio < 1.001
    assert mean_ratio > (1.02 if shares_lists else 0.995)
    assert p95_ratio > (1.02 if shares_lists else 0.995)


@pytest.mark.parametrize("policy", list(PoolPolicy))
def test_in_slots_that_are_extended_together_waiting_only_costs(policy):
    def times_s(prefill_wait_s, wait_s):
        timeline, found = Timeline(), []
        device = PoolDevice(
            timeline, 8, policy, prefill_slo_s=9e-3, alone_s=3e-3, kv_link_use=lambda: 1.0
        )
        device.scheduler.knobs = PoolKnobs(0.5, prefill_wait_s, wait_s)
        rng = np.random.default_rng(1)
        for at_s in np.cumsum(rng.exponential(3e-3 / (LOAD * 8), SEARCHES)).tolist():
            stage = Stage.PREFILL if rng.random() < 0.5 else Stage.DECODE
            service_s = float(rng.uniform(2e-3, 4e-3))
            timeline.at(
                at_s,
                lambda stage=stage, service_s=service_s: device.search(
                    stage, service_s, lambda waited_s, took_s: found.append(took_s)
                ),
            )
        while len(found) < SEARCHES:
            assert timeline.step()
        return np.mean(found), timeline.now_s()

    at_once_s, over_s = times_s(0.0, 0.0)
    for timeouts_s in TIMEOUTS_S:
        waiting_s, over_waiting_s = times_s(*timeouts_s)
        assert waiting_s > 1.1 * at_once_s
        assert over_waiting_s > 0.999 * over_s
