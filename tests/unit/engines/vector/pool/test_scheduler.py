"""The pool's promises, over random streams: work conserving, nothing starves, each ends once."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.engines.vector.pool.limits import PoolKnobs
from heddle.engines.vector.pool.lookahead import CAUTION
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.pool.requests import PoolRequest, Stage
from heddle.engines.vector.pool.scheduler import PoolScheduler

SERVICE_S = 1.0


def request(task_id, stage, arrived_s=0.0, deadline_s=math.inf, alone_s=SERVICE_S):
    return PoolRequest(task_id, stage, arrived_s, deadline_s, alone_s)


def prefill(task_id, arrived_s=0.0, deadline_s=math.inf):
    return request(task_id, Stage.PREFILL, arrived_s, deadline_s)


def decode(task_id, arrived_s=0.0):
    return request(task_id, Stage.DECODE, arrived_s)


class Pool:
    """Runs a scheduler on ticks of a tenth of a service; parked searches keep what they did."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.left = {}
        self.running = set()
        self.parked = set()
        self.started_at = {}
        self.ends = Counter()

    def tick(self, now_s, arrivals=()):
        for arrival in arrivals:
            self.scheduler.add(arrival)
        decision = self.scheduler.decide(now_s)
        for task_id in decision.park:
            self.running.remove(task_id)
            self.parked.add(task_id)
        for task_id in decision.resume:
            self.parked.remove(task_id)
            self.running.add(task_id)
        for task_id in decision.start:
            assert task_id not in self.left, "started twice"
            self.left[task_id] = 10
            self.started_at[task_id] = now_s
            self.running.add(task_id)
        assert len(self.running) == self.scheduler.running <= self.scheduler.slots
        gathers = self.scheduler.knobs.wait_s_max > 0 and len(self.running) > 0
        assert gathers or not (self.scheduler.free and self.scheduler.waiting), "a slot idles"
        for task_id in sorted(self.running):
            self.left[task_id] -= 1
            if not self.left[task_id]:
                self.running.remove(task_id)
                self.ends[task_id] += 1
                assert self.scheduler.remove(task_id) is not None
        return decision


streams = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(list(Stage)), st.sampled_from([0.5, 2.0, 9.0])),
    max_size=60,
)


@settings(max_examples=150)
@given(
    stream=streams,
    slots=st.integers(1, 5),
    policy=st.sampled_from(list(PoolPolicy)),
    share=st.sampled_from([0.1, 0.5, 0.9]),
    waits_s=st.sampled_from([(0.0, 0.0), (0.1, 0.4)]),
    cancelled=st.sets(st.integers(0, 59), max_size=5),
)
def test_every_search_ends_once_and_no_slot_idles(stream, slots, policy, share, waits_s, cancelled):
    pool = Pool(PoolScheduler(slots, policy, PoolKnobs(share, *waits_s)))
    by_tick = {}
    for task_id, (tick, stage, slo_s) in enumerate(stream):
        now_s = tick / 10
        by_tick.setdefault(tick, []).append(request(task_id, stage, now_s, now_s + slo_s))
    gone = set()
    for tick in range(62 + 12 * len(stream)):
        pool.tick(tick / 10, by_tick.get(tick, ()))
        if tick == 30:
            for task_id in cancelled:
                if pool.scheduler.remove(task_id):
                    gone.add(task_id)
                    pool.running.discard(task_id)
                    pool.parked.discard(task_id)
    assert set(pool.ends) == set(range(len(stream))) - gone
    assert set(pool.ends.values()) <= {1}
    assert pool.scheduler.running == pool.scheduler.waiting == 0


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("slo_s", [0.1, 5.0])
def test_neither_stage_starves_under_an_endless_stream_of_the_other(share, stage, slo_s):
    pool = Pool(PoolScheduler(2, knobs=PoolKnobs(share)))
    other = Stage.DECODE if stage is Stage.PREFILL else Stage.PREFILL
    for tick in range(600):
        now_s = tick / 10
        arrivals = [request(10 * tick + i, other, now_s, now_s + slo_s) for i in range(2)]
        if tick == 5:
            arrivals.append(request(-1, stage, now_s, now_s + 5.0))
        pool.tick(now_s, arrivals)
    assert pool.ends[-1] == 1


def test_a_reserved_share_is_kept_while_both_wait():
    pool = Pool(PoolScheduler(1, knobs=PoolKnobs(0.3)))
    arrivals = [prefill(i) for i in range(200)] + [decode(1000 + i) for i in range(200)]
    pool.tick(0.0, arrivals)
    for tick in range(1, 1000):
        pool.tick(tick / 10)
    share = sum(task_id < 1000 for task_id in pool.ends) / len(pool.ends)
    assert share == pytest.approx(0.3, abs=0.02)


def test_an_unused_share_is_given_away():
    scheduler = PoolScheduler(4, knobs=PoolKnobs(0.9))
    for i in range(6):
        scheduler.add(decode(i))
    assert scheduler.decide(0.0).start == (0, 1, 2, 3)


def test_prefill_is_ordered_by_slack_and_decode_by_arrival():
    scheduler = PoolScheduler(6, PoolPolicy.PREFILL_FIRST)
    for i, deadline_s in enumerate([9.0, 5.0, 7.0]):
        scheduler.add(prefill(i, 0.0, deadline_s))
    for i in (12, 11, 13):
        scheduler.add(decode(i))
    assert scheduler.decide(0.0).start == (1, 2, 0, 12, 11, 13)


def test_static_policies_put_one_stage_first_or_none():
    for policy, expected in {
        PoolPolicy.PREFILL_FIRST: (2, 1, 3),
        PoolPolicy.DECODE_FIRST: (1, 3, 2),
        PoolPolicy.FIFO: (1, 2, 3),
    }.items():
        scheduler = PoolScheduler(3, policy)
        for added in (decode(1, 0.1), prefill(2, 0.2, 99.0), decode(3, 0.3)):
            scheduler.add(added)
        assert scheduler.decide(1.0).start == expected


def test_a_late_prefill_search_parks_the_newest_decode_search_which_goes_on_first():
    scheduler = PoolScheduler(2)
    scheduler.add(decode(1))
    scheduler.add(decode(2))
    assert scheduler.decide(0.0).start == (1, 2)
    scheduler.add(prefill(3, 1.0, deadline_s=4.0))
    scheduler.add(decode(4, 1.0))
    waiting = scheduler.decide(1.0)
    assert (waiting.start, waiting.park) == ((), ())
    assert waiting.wake_at_s == pytest.approx(4.0 - CAUTION * SERVICE_S)
    late = scheduler.decide(waiting.wake_at_s)
    assert (late.start, late.park) == ((3,), (2,))
    scheduler.remove(3)
    assert scheduler.decide(3.0).resume == (2,)


def test_static_policies_park_nobody():
    for policy in set(PoolPolicy) - {PoolPolicy.ADAPTIVE}:
        scheduler = PoolScheduler(1, policy)
        scheduler.add(decode(1))
        scheduler.decide(0.0)
        scheduler.add(prefill(2, 0.0, deadline_s=0.1))
        assert scheduler.decide(1.0).park == ()


def test_searches_gather_until_the_flush_timeout_but_never_in_an_idle_pool():
    knobs = PoolKnobs(prefill_wait_s_max=0.1, wait_s_max=1.0)
    scheduler = PoolScheduler(4, knobs=knobs)
    scheduler.add(decode(1, 0.0))
    assert scheduler.decide(0.0).start == (1,)
    scheduler.add(decode(2, 0.2))
    held = scheduler.decide(0.3)
    assert (held.start, held.wake_at_s) == ((), 1.2)
    scheduler.add(prefill(3, 0.4))
    assert scheduler.decide(0.4).wake_at_s == 0.5
    assert set(scheduler.decide(0.5).start) == {2, 3}


def test_a_full_buffer_is_not_held():
    scheduler = PoolScheduler(3, knobs=PoolKnobs(wait_s_max=9.0))
    for i in range(3):
        scheduler.add(decode(i))
    scheduler.decide(0.0)
    scheduler.remove(0)
    scheduler.add(decode(5, 0.1))
    assert scheduler.decide(0.1).start == (5,)


@pytest.mark.parametrize(
    "values", [{"share": 0.0}, {"share": 1.0}, {"prefill_wait_s_max": 2.0, "wait_s_max": 1.0}]
)
def test_knobs_out_of_range_are_refused(values):
    with pytest.raises(ConfigError):
        PoolKnobs(**values)


def test_a_decode_search_that_waited_too_long_is_passed_and_parked_no_more():
    scheduler = PoolScheduler(1, knobs=PoolKnobs(0.1))
    scheduler.add(request(1, Stage.DECODE, 0.0, deadline_s=2.0))
    scheduler.add(prefill(2, 0.0, deadline_s=99.0))
    assert scheduler.decide(3.0).start == (1,)
    scheduler.add(prefill(3, 3.0, deadline_s=3.0))
    assert scheduler.decide(3.0).park == ()
