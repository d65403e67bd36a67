"""Searches by words beside the steps: only those who asked wait for them."""

import math
import threading

import numpy as np
import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.frames import Cancelled, Done, Failed
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.pool.engine import PoolEngine
from heddle.engines.vector.pool.kv_link import KvLink
from heddle.engines.vector.pool.meters import PoolMeters
from heddle.engines.vector.pool.requests import Stage
from heddle.engines.vector.pool.scheduler import PoolScheduler

WAIT_S = 30


class Lane:
    """An engine whose corpus holds searches by words back until it may go on."""

    def __init__(self, tools):
        self.tools, self.source = tools, tools.Source(tools.clustered(300))
        self.find = self.source.by_words
        self.source.by_words = self.by_words
        self.may_go_on, self.begun, self.ended = (threading.Event() for _ in range(3))
        self.stopped = []  # texts of searches that were cancelled while they looked
        corpus = FollowedIvf(LiveIndex.build(self.source), self.source)
        self.engine = ivf_engine("vector", 0, corpus, tools.Clock())
        self.engine.subscribe(self.ended.set)

    def by_words(self, text, limit, scope, is_cancelled):
        self.begun.set()
        goes_on = False
        while not goes_on:
            goes_on = self.may_go_on.wait(1e-3)
            if is_cancelled():
                self.stopped.append(text)
                raise RuntimeError("interrupted")
        return self.find(text, limit, scope, is_cancelled)

    def search(self, task_id, *words):
        queries = self.tools.clustered(len(words) or 1, seed=task_id)
        payload = SearchPayload(queries, 3, words=words or None)
        identity = Identity(task_id, "find")
        return Admit(Task(task_id, PrimitiveKind.SEARCHING, identity, payload), 0)


@pytest.fixture
def lane(tools):
    lane = Lane(tools)
    yield lane
    lane.engine.close()


@pytest.mark.slow
def test_other_searches_end_while_words_are_looked_for(lane, tools):
    lane.engine.apply(lane.search(1, "7 3"))
    lane.engine.apply(lane.search(2))
    ends = tools.terminals(tools.drain(lane.engine))
    assert list(ends) == [2]
    lane.may_go_on.set()
    assert lane.ended.wait(WAIT_S)
    assert lane.engine.has_work
    result = tools.terminals(tools.drain(lane.engine))[1].result
    assert result.by_words.labels.tolist() == [[7, 3, -1]]
    assert (result.labels >= 1).all()


def test_words_that_are_found_first_wait_for_the_scan(lane, tools):
    lane.may_go_on.set()
    lane.engine.apply(lane.search(1, "7"))
    events = [*lane.engine.step(0.0, 0.0).events]  # not one list fits the budget
    assert lane.ended.wait(WAIT_S)
    result = tools.terminals(events + tools.drain(lane.engine))[1].result
    assert result.by_words.labels.tolist() == [[7, -1, -1]]


def test_a_cancelled_search_is_stopped_and_the_next_one_begins(lane, tools):
    lane.engine.apply(lane.search(1, "1"))
    lane.engine.apply(lane.search(2, "2"))
    lane.engine.apply(lane.search(3, "3"))
    tools.drain(lane.engine)
    assert lane.begun.wait(WAIT_S)
    lane.engine.apply(Cancel(1))
    lane.engine.apply(Cancel(3))
    ends = tools.terminals(tools.drain(lane.engine))
    assert ends == {1: Cancelled(1), 3: Cancelled(3)}
    lane.may_go_on.set()
    assert lane.ended.wait(WAIT_S)
    ends = tools.terminals(tools.drain(lane.engine))
    assert list(ends) == [2]
    assert ends[2].result.by_words.labels.tolist() == [[2, -1, -1]]
    assert lane.stopped == ["1"]


def test_a_failure_is_one_tasks(lane, tools):
    lane.engine.apply(lane.search(1, "no number"))
    tools.drain(lane.engine)
    lane.may_go_on.set()
    assert lane.ended.wait(WAIT_S)
    failed = tools.terminals(tools.drain(lane.engine))[1]
    assert isinstance(failed, Failed)
    assert "the search by words failed: invalid literal" in failed.message
    lane.ended.clear()
    lane.engine.apply(lane.search(2, "2"))
    events = tools.drain(lane.engine)
    assert lane.ended.wait(WAIT_S)
    assert isinstance(tools.terminals(events + tools.drain(lane.engine))[2], Done)


def test_closing_stops_what_goes_on(lane, tools):
    threads = threading.active_count()
    lane.engine.apply(lane.search(1, "1"))
    tools.drain(lane.engine)
    assert lane.begun.wait(WAIT_S)
    lane.engine.close()
    assert lane.stopped == ["1"]
    assert threading.active_count() == threads


def test_a_pools_slot_is_free_while_words_are_looked_for(lane, tools):
    meters = PoolMeters()
    pool = PoolEngine(
        lane.engine,
        lambda _: Stage.PREFILL,
        PoolScheduler(1),
        prefill_slo_s=1.0,
        kv_link=KvLink(0),
        meters=meters,
    )
    woken = threading.Event()
    pool.subscribe(woken.set)
    pool.apply(lane.search(1, "7"))
    assert tools.terminals(tools.drain(pool)) == {}
    assert (pool.scheduler.running, pool.scheduler.free) == (0, 1)
    alone_s = meters.alone_s(Stage.PREFILL, 1.0)
    pool.apply(lane.search(2))
    events = tools.drain(pool)
    assert list(tools.terminals(events)) == [2]
    lane.may_go_on.set()
    assert woken.wait(WAIT_S)
    ends = tools.terminals([*events, *pool.step(100.0, math.inf).events])
    assert set(ends) == {1, 2}
    assert pool.scheduler.running == 0
    assert meters.alone_s(Stage.PREFILL, 1.0) <= alone_s, "the wait for words is no search"
    result = ends[1].result
    np.testing.assert_array_equal(result.by_words.labels, [[7, -1, -1]])
