"""The pool in front of both engines: same hits, one end each, deadlines met by parking."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core import gauges
from heddle.core.commands import Admit, Cancel, KvSent, Steer
from heddle.core.frames import Cancelled, Done
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Priority, Task
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.step_counts import PRIOR_S
from heddle.engines.vector.pool.build import stage_of
from heddle.engines.vector.pool.engine import PoolEngine
from heddle.engines.vector.pool.kv_link import KvLink
from heddle.engines.vector.pool.limits import PoolKnobs
from heddle.engines.vector.pool.meters import PoolMeters
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.pool.requests import Stage
from heddle.engines.vector.pool.scheduler import PoolScheduler

COUNT, ENGINE_SLOTS = 1500, 12


class TimedWorker:
    """Searches for real; what a step did takes time on a clock: a list or extend, one second."""

    def __init__(self, worker, clock):
        self._worker, self._clock = worker, clock

    def __getattr__(self, name):
        return getattr(self._worker, name)

    def scan(self, queries, lists, *heaps_and_allowed):
        self._clock.time_s += int((lists >= 0).sum())
        return self._worker.scan(queries, lists, *heaps_and_allowed)

    def advance(self, slots, quantum, seed_extends):
        done = self._worker.advance(slots, quantum, seed_extends)
        self._clock.time_s += done.extends
        return done


def over_lists(tools, clock):
    source = tools.Source(tools.clustered(COUNT))
    corpus = FollowedIvf(LiveIndex.build(source), source)
    timed = tools.ScannedBy(corpus, lambda scanner: TimedWorker(scanner, clock))
    prior_s = {**dict.fromkeys(PRIOR_S, 1e-9), "lists": 1.0}
    return ivf_engine("vector", 0, timed, clock, slots=ENGINE_SLOTS, prior_s=prior_s)


def over_graph(tools, clock):
    from heddle.engines.vector.graph.graph_index import build_graph
    from heddle.engines.vector.graph.graph_searches import PRIOR_S as GRAPH_PRIOR_S
    from heddle.engines.vector.graph.graph_searches import graph_engine
    from heddle.engines.vector.graph.live_graph import LiveGraph
    from heddle.engines.vector.graph.worker import NumbaWorker

    index = build_graph(tools.clustered(COUNT), np.arange(1, COUNT + 1))
    worker = TimedWorker(NumbaWorker(LiveGraph(index), ENGINE_SLOTS), clock)
    prior_s = {**dict.fromkeys(GRAPH_PRIOR_S, 1e-9), "extends": 1.0}
    return graph_engine("graph", 0, worker, clock, prior_s=prior_s)


@pytest.fixture(scope="module", params=[over_lists, over_graph])
def served(request, tools):
    """(engine behind, its clock); every test leaves it empty."""
    clock = tools.Clock()
    return request.param(tools, clock), clock


def pool_over(served, slots=3, policy=PoolPolicy.ADAPTIVE, slo_s=100.0, link=None, knobs=None):
    """A pool whose odd tasks come from prefill."""
    return PoolEngine(
        served[0],
        lambda task: Stage.PREFILL if task.task_id % 2 else Stage.DECODE,
        PoolScheduler(slots, policy, knobs),
        prefill_slo_s=slo_s,
        kv_link=link or KvLink(0),
        meters=PoolMeters(1.0),
    )


def drain(pool, clock, budget_s=4.0, steps_max=20_000):
    events = []
    for _ in range(steps_max):
        if not pool.has_work:
            return events
        events += pool.step(clock.now_s(), budget_s).events
    raise AssertionError("the pool still has work")


def query(tools, seed):
    return tools.clustered(COUNT)[seed * 7 % COUNT][None]


def test_more_work_is_predicted_to_take_longer(tools, served):
    engine, _ = served
    one = SearchPayload(query(tools, 1), 3, nprobe=4, topm=32)
    more = SearchPayload(np.repeat(query(tools, 1), 5, axis=0), 3, nprobe=8, topm=64)
    assert engine.work(more) == 10 * engine.work(one)
    pool = pool_over(served)
    added = []
    pool.scheduler.add = added.append
    for task_id, payload in enumerate([one, more]):
        identity = Identity(task_id, "search")
        pool.apply(Admit(Task(task_id, PrimitiveKind.SEARCHING, identity, payload), 0))
    pool.step(0.0, 1.0)
    assert added[1].alone_s == pytest.approx(10 * added[0].alone_s)


@settings(max_examples=25)
@given(
    tasks=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=14),
    policy=st.sampled_from(list(PoolPolicy)),
    slots=st.integers(1, 6),
    cancelled=st.sets(st.integers(0, 13), max_size=3),
    slo_s=st.sampled_from([1.0, 40.0]),
)
def test_hits_are_those_without_a_pool(tools, served, tasks, policy, slots, cancelled, slo_s):
    engine, clock = served
    expected = {}
    for task_id, (seed, _) in enumerate(tasks):
        engine.apply(tools.search(task_id, query(tools, seed), topk=5))
        (event,) = drain(engine, clock, math.inf)
        expected[task_id] = event.result
    pool, events = pool_over(served, slots, policy, slo_s), []
    for step in range(10):
        for task_id, (seed, at) in enumerate(tasks):
            if at == step:
                pool.apply(tools.search(task_id, query(tools, seed), topk=5))
        if step == 5:
            for task_id in cancelled:
                pool.apply(Cancel(task_id))
        events += pool.step(clock.now_s(), 3.0).events
    events += drain(pool, clock)
    ends = tools.terminals(events)
    assert set(ends) == set(range(len(tasks)))
    for task_id, event in ends.items():
        if isinstance(event, Cancelled):
            assert task_id in cancelled
            continue
        np.testing.assert_array_equal(event.result.labels, expected[task_id].labels)
        np.testing.assert_array_equal(event.result.distances, expected[task_id].distances)
    assert engine.rows_in_flight == pool.scheduler.running == 0


def test_a_late_prefill_search_overtakes_those_that_run(tools, served):
    _, clock = served
    pool = pool_over(served, slots=1, slo_s=2.0)
    for task_id in (2, 4):
        pool.apply(tools.search(task_id, query(tools, task_id)))
    pool.step(clock.now_s(), 2.0)
    pool.apply(tools.search(1, query(tools, 1)))
    ends = [event.task_id for event in drain(pool, clock, 2.0) if isinstance(event, Done)]
    assert ends[0] == 1
    assert sorted(ends) == [1, 2, 4]


def test_hits_say_how_long_they_waited_and_how_often_they_were_parked(tools, served):
    _, clock = served
    pool = pool_over(served, slots=1, slo_s=2.0)
    pool.apply(tools.search(2, query(tools, 2)))
    pool.step(clock.now_s(), 2.0)
    pool.apply(tools.search(1, query(tools, 1)))
    pool.apply(tools.search(4, query(tools, 4)))
    hits = {task: end.result for task, end in tools.terminals(drain(pool, clock, 2.0)).items()}
    assert [hits[task].counts.searches_parked for task in (1, 2, 4)] == [0, 1, 0]
    assert hits[1].counts.search_wait_s == hits[2].counts.search_wait_s == 0.0
    assert hits[4].counts.search_wait_s > 0.0


def test_which_side_asks_is_told_by_the_payload(tools):
    for while_decoding, stage in ((False, Stage.PREFILL), (True, Stage.DECODE)):
        payload = SearchPayload(query(tools, 1), 5, while_decoding=while_decoding)
        task = Task(1, PrimitiveKind.SEARCHING, Identity(1, "find"), payload)
        assert stage_of(task) is stage


def test_no_more_searches_run_than_the_pool_has_slots(tools, served):
    engine, clock = served
    pool = pool_over(served, slots=2, policy=PoolPolicy.FIFO)
    for task_id in range(6):
        pool.apply(tools.search(task_id, query(tools, task_id)))
    frame = pool.step(clock.now_s(), 1.0)
    assert engine.rows_in_flight <= 2
    assert frame.load.waiting >= 4
    assert frame.has_work
    pool_gauges = (gauges.POOL_RUNNING, gauges.POOL_FREE, gauges.POOL_WAITING)
    assert [frame.gauges[name] for name in pool_gauges] == [2, 0, 4]
    assert gauges.INDEX_REVISION in frame.gauges or engine.name == "graph"
    assert len(drain(pool, clock)) + len(frame.events) == 6


def test_a_waiting_search_is_cancelled_by_the_pool_itself(tools, served):
    _, clock = served
    pool = pool_over(served, slots=1)
    for task_id in (2, 4, 6):
        pool.apply(tools.search(task_id, query(tools, task_id)))
    pool.step(clock.now_s(), 1.0)
    pool.apply(Cancel(6))
    pool.apply(Cancel(6))
    pool.apply(Steer(task_id=4, priority=Priority.BULK))
    ends = tools.terminals(drain(pool, clock))
    assert isinstance(ends[6], Cancelled)
    assert isinstance(ends[2], Done)
    assert isinstance(ends[4], Done)


def test_a_task_sent_twice_runs_once(tools, served):
    _, clock = served
    pool = pool_over(served)
    for _ in range(2):
        pool.apply(tools.search(2, query(tools, 2)))
    pool.step(clock.now_s(), 1.0)
    pool.apply(tools.search(2, query(tools, 2)))
    drain(pool, clock)
    assert not pool.has_work


def test_the_control_loop_reserves_more_while_prefill_waits(tools, served):
    _, clock = served
    pool = pool_over(served, slots=1, slo_s=20.0)
    before = pool.scheduler.knobs.share
    for task_id in range(1, 40, 2):
        pool.apply(tools.search(task_id, query(tools, task_id)))
    drain(pool, clock, 1.0)
    assert pool.scheduler.knobs.share > before


@pytest.mark.parametrize(("task_id", "wait_s"), [(1, 10.0), (3, 0.0), (2, 40.0)])
def test_a_search_waits_for_others_until_its_flush_timeout_while_some_run(
    tools, served, task_id, wait_s
):
    """Those from prefill have odd numbers; number 3 would be late if it waited."""
    _, clock = served
    pool = pool_over(served, slo_s=1e9 if task_id != 3 else 1.0, knobs=PoolKnobs.flushing(40.0))
    pool.apply(tools.search(100, np.repeat(query(tools, 5), 40, axis=0)))
    pool.step(clock.now_s(), 1.0)
    pool.apply(tools.search(task_id, query(tools, task_id)))
    hits = tools.terminals(drain(pool, clock, 0.5))[task_id].result
    assert wait_s <= hits.counts.search_wait_s < wait_s + 13.0, "no step takes longer than 12 s"


def test_what_prefill_lanes_send_is_heard_and_goes_no_further(served):
    link = KvLink(1)
    link.take_use(0.0)
    pool = pool_over(served, link=link)
    pool.apply(Steer(kv_sent=KvSent(0.25, 0.25)))
    pool.apply(Steer(kv_sent=KvSent(0.5, 0.5)))
    assert link.take_use(1.0) == 0.75
    assert not pool.has_work
