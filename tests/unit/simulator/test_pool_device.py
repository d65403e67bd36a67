"""The pool on virtual time: searches last as long as they were said to, parked or not."""

import pytest

from heddle.engines.vector.pool.lookahead import CAUTION
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.pool.requests import Stage
from heddle.simulator.pool_device import PoolDevice
from heddle.simulator.timeline import Timeline


def device(timeline, slots=1, policy=PoolPolicy.ADAPTIVE, slo_s=5.0):
    return PoolDevice(
        timeline, slots, policy, prefill_slo_s=slo_s, alone_s=1.0, kv_link_use=lambda: 1.0
    )


class Heard:
    def __init__(self, pool, timeline):
        self.pool, self.timeline, self.ends = pool, timeline, {}

    def search(self, name, stage, service_s):
        def ended(waited_s, took_s):
            assert name not in self.ends
            self.ends[name] = (self.timeline.now_s(), waited_s, took_s)

        self.pool.search(stage, service_s, ended)


def run_all(timeline):
    while timeline.step():
        pass


def test_searches_run_side_by_side_and_wait_for_slots():
    timeline = Timeline()
    pool = device(timeline, slots=2, policy=PoolPolicy.FIFO)
    heard = Heard(pool, timeline)
    for name, service_s in (("a", 2.0), ("b", 3.0), ("c", 1.0)):
        heard.search(name, Stage.DECODE, service_s)
    run_all(timeline)
    assert heard.ends == {"a": (2.0, 0.0, 2.0), "b": (3.0, 0.0, 3.0), "c": (3.0, 2.0, 3.0)}
    assert pool.busy_s == pytest.approx(6.0)


def test_a_parked_search_goes_on_where_it_stopped():
    timeline = Timeline()
    pool = device(timeline, slo_s=2.0)
    heard = Heard(pool, timeline)
    heard.search("decode", Stage.DECODE, 10.0)
    timeline.at(4.0, lambda: heard.search("prefill", Stage.PREFILL, 1.0))
    run_all(timeline)
    # What slack there is, then 1 s of work, while 10 s of work are interrupted once.
    assert heard.ends["prefill"][0] == pytest.approx(4.0 + (2.0 - CAUTION) + 1.0)
    assert heard.ends["decode"] == pytest.approx((11.0, 0.0, 11.0))
    assert pool.busy_s == pytest.approx(11.0)


def test_without_parking_prefill_waits_for_a_slot():
    timeline = Timeline()
    heard = Heard(device(timeline, policy=PoolPolicy.PREFILL_FIRST, slo_s=2.0), timeline)
    heard.search("decode", Stage.DECODE, 10.0)
    timeline.at(4.0, lambda: heard.search("prefill", Stage.PREFILL, 1.0))
    run_all(timeline)
    assert heard.ends["prefill"] == (11.0, 6.0, 7.0)
