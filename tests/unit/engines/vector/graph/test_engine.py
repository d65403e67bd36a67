"""The engine: a search has the same hits alone and beside any others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.commands import Admit, Cancel, Release, Steer
from heddle.core.frames import Cancelled, Done, Failed, Progress
from heddle.core.payloads import EmbedPayload, SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle
from heddle.core.tasks import Identity, Priority, Task
from heddle.engines.vector.graph.graph_searches import PRIOR_S
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.scheduler import RUNNABLE, TOPM_MAX
from heddle.engines.vector.graph.worker import NumbaWorker

NEVER = float("inf")


def search(task_id, queries, topk=5, topm=None, *, priority=Priority.NORMAL, left_s=NEVER, every=0):
    identity = Identity(task_id, "search", priority=priority)
    payload = SearchPayload(queries, topk, topm=topm)
    return Admit(Task(task_id, PrimitiveKind.SEARCHING, identity, payload, left_s), every)


@settings(max_examples=40)
@given(
    plan=st.lists(
        st.tuples(
            st.integers(1, 4),  # rows
            st.integers(1, 20),  # topk
            st.sampled_from([None, 1, 16, 90]),  # topm
            st.sampled_from(list(Priority)),
            st.integers(0, 6),  # the step before which it comes
        ),
        min_size=1,
        max_size=12,
    ),
    budget_s=st.sampled_from([0.5, 3.0, 40.0, 1e9]),
    seed=st.integers(0, 5),
)
def test_results_equal_each_search_alone(graph, plan, budget_s, seed):
    engine = graph.engine(slots=5)
    wanted = {}
    for task_id, (rows, topk, topm, _, _) in enumerate(plan):
        wanted[task_id] = (graph.queries(rows, seed + task_id), topk, topm)
    events, step = [], 0
    while step <= 6 or engine.has_work:
        for task_id, (_, _, _, priority, at) in enumerate(plan):
            if at == step:
                engine.apply(search(task_id, *wanted[task_id], priority=priority))
        events += engine.step(float(step), budget_s).events
        step += 1
        assert step < 20_000
    ends = graph.tools.terminals(events)
    assert sorted(ends) == list(range(len(plan)))
    for task_id, (queries, topk, topm) in wanted.items():
        hits = ends[task_id].result
        for row, query in enumerate(queries):
            distances, labels = graph.alone(query, topk, topm or 64)
            np.testing.assert_array_equal(hits.distances[row], distances)
            np.testing.assert_array_equal(hits.labels[row], labels)
    assert engine.rows_in_flight == 0


def test_a_search_that_is_over_leaves_while_others_go_on(graph):
    engine = graph.engine()
    engine.apply(search(1, graph.queries(1), topm=256))
    engine.step(0.0, 3.0)
    engine.apply(search(2, graph.queries(1, 1), topm=4))
    events = []
    while not events:
        events += engine.step(0.0, 3.0).events
    assert [event.task_id for event in events] == [2]
    assert engine.rows_in_flight == 1


def test_least_slack_is_extended_first(graph):
    worker = graph.worker()
    engine = graph.engine(worker=worker)
    engine.apply(search(1, graph.queries(1), topm=64))
    engine.step(0.0, 4.0)
    engine.apply(search(2, graph.queries(1, 1), topm=64, left_s=90.0))
    engine.step(0.0, 4.0)
    first, second = worker.orders[-1]
    assert worker.orders[0] == [second]
    assert first != second


def test_few_tasks_go_on_at_once_but_for_more_urgent_ones(graph):
    engine = graph.engine(slots=2 * RUNNABLE)
    for task_id in range(RUNNABLE + 2):
        engine.apply(search(task_id, graph.queries(1, task_id), topm=256))
    engine.step(0.0, 1.0)
    assert engine.rows_in_flight == RUNNABLE
    engine.apply(search(50, graph.queries(1), topm=256))
    engine.apply(search(51, graph.queries(1), topm=256, left_s=1.0))
    engine.step(0.0, 1.0)
    assert engine.rows_in_flight == RUNNABLE + 1
    events = graph.tools.drain(engine, 50.0)
    assert events[0].task_id == 51
    assert len(events) == RUNNABLE + 4


def test_a_lower_class_gets_what_the_higher_leaves(graph):
    engine = graph.engine()
    engine.apply(search(1, graph.queries(1), topm=64, left_s=1.0))
    engine.apply(search(2, graph.queries(1, 1), topm=64))
    engine.apply(Steer(task_id=1, priority=Priority.BULK))
    events = []
    while engine.has_work:
        events += engine.step(0.0, 5.0).events
    assert [event.task_id for event in events] == [2, 1]


def test_no_search_waits_for_ever(graph):
    engine = graph.engine(slots=4)
    engine.apply(search(0, graph.queries(1), topm=256))
    for step in range(1, 4000):  # short ones keep coming, as many as can be served
        if step % 3 == 0:
            engine.apply(search(step, graph.queries(1, step), topm=8))
        frame = engine.step(float(4 * step), 4.0)
        if any(event.task_id == 0 for event in frame.events):
            return
    pytest.fail("the long search starved")


def test_partial_hits_are_told_and_grow(graph):
    engine = graph.engine()
    engine.apply(search(7, graph.queries(3), topk=5, topm=64, every=2))
    events = graph.tools.drain(engine, 10.0)
    partial = [event for event in events if isinstance(event, Progress)]
    assert len(partial) > 2
    assert all(event.labels.shape == (3, 5) for event in partial)
    fractions = [event.fraction for event in partial]
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] < fractions[-1] <= 1
    worst = [event.distances.sum() for event in partial if np.isfinite(event.distances).all()]
    assert worst == sorted(worst, reverse=True)
    assert isinstance(events[-1], Done)


def test_cancel_frees_the_slots_and_answers_once(graph):
    engine = graph.engine(slots=2)
    engine.apply(search(1, graph.queries(4), topm=64))  # two of its rows wait
    engine.step(0.0, 3.0)
    engine.apply(Cancel(1))
    engine.apply(Cancel(1))
    assert engine.rows_in_flight == 0
    assert [type(event) for event in graph.tools.drain(engine)] == [Cancelled]


def test_what_is_wrong_with_a_search_is_told(graph):
    engine = graph.engine()
    good = graph.queries(1)
    bad = [
        search(1, np.full_like(good, np.nan)),
        search(2, good[:, :3]),
        search(3, good, topk=0),
        search(4, good, topm=0),
        search(5, good, topm=TOPM_MAX + 1),
        search(6, good, topk=TOPM_MAX + 1),
    ]
    for command in bad:
        engine.apply(command)
    task = Task(7, PrimitiveKind.EMBEDDING, Identity(7, "x"), EmbedPayload(("text",)))
    engine.apply(Admit(task))
    events = engine.step(0.0, NEVER).events
    assert sorted(event.task_id for event in events) == [1, 2, 3, 4, 5, 6, 7]
    assert all(isinstance(event, Failed) and event.is_input for event in events)
    assert "NaN" in events[0].message
    assert not engine.has_work


def test_a_topk_beyond_the_topm_widens_it_and_beyond_the_graph_is_filled(graph):
    engine = graph.engine()
    engine.apply(search(1, graph.queries(1), topk=90, topm=8))
    (event,) = graph.tools.drain(engine)
    assert (event.result.labels >= 0).all()
    assert len(np.unique(event.result.labels)) == 90


def test_a_search_without_rows_is_done_at_once(graph):
    engine = graph.engine()
    engine.apply(search(1, graph.queries(0)))
    (event,) = engine.step(0.0, NEVER).events
    assert event.result.labels.shape == (0, 5)


def test_a_broken_worker_fails_what_it_was_at_and_the_rest_goes_on(graph):
    class Broken:
        def __init__(self, worker):
            self.worker, self.is_broken = worker, False

        def __getattr__(self, name):
            return getattr(self.worker, name)

        def advance(self, slots, quantum, seed_extends):
            if self.is_broken:
                raise RuntimeError("lost the device")
            return self.worker.advance(slots, quantum, seed_extends)

    worker = Broken(graph.worker(2))
    engine = graph.engine(worker=worker)
    engine.apply(search(1, graph.queries(2)))
    engine.apply(search(2, graph.queries(1)))  # waits for a slot
    engine.step(0.0, 2.0)
    worker.is_broken = True
    (event,) = engine.step(0.0, 2.0).events
    assert isinstance(event, Failed)
    assert "lost the device" in event.message
    worker.is_broken = False
    assert [type(event) for event in graph.tools.drain(engine)] == [Done]


def test_what_breaks_after_a_search_has_ended_leaves_that_alone(graph):
    class Broken:
        def __init__(self, worker):
            self.worker = worker

        def __getattr__(self, name):
            return getattr(self.worker, name)

        def top(self, slots, k, allowed=None):
            if k == 5:
                raise RuntimeError("lost the device")
            return self.worker.top(slots, k, allowed)

    engine = graph.engine(worker=Broken(graph.worker()))
    engine.apply(search(1, graph.queries(1), topk=1, topm=4))
    engine.apply(search(2, graph.queries(1, 1), topk=5, topm=64, every=1))
    first, second = engine.step(0.0, 20.0).events
    assert isinstance(first, Done)
    assert (second.task_id, second.message) == (2, "graph search failed: lost the device")
    assert not engine.has_work


def test_commands_for_nobody_are_ignored(graph):
    engine = graph.engine()
    for command in (
        Cancel(5),
        Steer(task_id=5, priority=Priority.BULK),
        Release(KvHandle("graph", 0, 1)),
    ):
        engine.apply(command)
    assert not engine.has_work


def test_a_search_in_flight_is_small(graph):
    assert NumbaWorker(LiveGraph(graph.index), 3).bytes_per_search < 256 * 1024


def test_a_step_is_predicted_as_long_as_its_budget_or_what_can_not_be_cut(graph):
    engine = graph.engine(prior_s={**PRIOR_S, "call": 1.0, "rows": 10.0, "extends": 0.5})
    assert engine.predicted_step_s() == pytest.approx(11.5)
    engine.apply(Steer(budget_s=40.0))
    assert engine.predicted_step_s() == pytest.approx(41.0)
