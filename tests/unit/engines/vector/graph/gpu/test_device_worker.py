"""The engine over a device's graph search: what runs beside a search changes nothing of it."""

import numpy as np
import pytest
import torch

from heddle.core.commands import Admit
from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.graph.gpu import reference
from heddle.engines.vector.graph.gpu.device_worker import TOPM_MIN, DeviceWorker
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker

CPU = torch.device("cpu")


class ClockedWorker:
    """A device on which an extend takes a second of its clock."""

    def __init__(self, worker, clock):
        self._worker, self.clock = worker, clock

    def __getattr__(self, name):
        return getattr(self._worker, name)

    def advance(self, slots, quantum, seed_extends):
        done = self._worker.advance(slots, quantum, seed_extends)
        self.clock.time_s += done.extends
        return done


def on_device(graph, slots=8):
    return DeviceWorker(LiveGraph(graph.index), CPU, slots, reference.extend)


def alone(graph, query, topk, topm):
    """Return (distances, labels) of one query in a worker of its own, in one go."""
    worker, slot = on_device(graph, 1), np.zeros(1, np.int64)
    worker.start([0], query[None], topm)
    worker.advance(slot, 1 << 40, 0)
    distances, labels = worker.top(slot, topk)
    return distances[0], labels[0]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_queries_of_any_float_are_searched(graph, dtype):
    engine = graph.engine(worker=ClockedWorker(on_device(graph), graph.tools.Clock()))
    queries = graph.queries(2).astype(dtype)
    identity = Identity(1, "search")
    engine.apply(Admit(Task(1, PrimitiveKind.SEARCHING, identity, SearchPayload(queries, 5)), 0))
    [done] = graph.tools.drain(engine)
    assert isinstance(done, Done), done
    for labels, query in zip(done.result.labels, queries.astype(np.float32), strict=True):
        np.testing.assert_array_equal(labels, alone(graph, query, 5, 64)[1])


def test_searches_of_an_engine_find_what_they_find_alone(graph):
    """They come one after another, with several numbers of candidates, and leave when they end."""
    engine = graph.engine(worker=ClockedWorker(on_device(graph), graph.tools.Clock()))
    wanted, events = {}, []
    for task_id in range(12):
        rows, topk, topm = 1 + task_id % 3, 5 + task_id, (None, 16, 128)[task_id % 3]
        wanted[task_id] = graph.queries(rows, task_id), topk, topm
        payload = SearchPayload(wanted[task_id][0], topk, topm=topm)
        task = Task(task_id, PrimitiveKind.SEARCHING, Identity(task_id, "search"), payload)
        engine.apply(Admit(task, 0))
        events += engine.step(float(task_id), 8.0).events
    events += graph.tools.drain(engine, 40.0)
    assert len(events) == 12
    for event in events:
        assert isinstance(event, Done), event
        queries, topk, topm = wanted[event.task_id]
        for row, query in enumerate(queries):
            distances, labels = alone(graph, query, topk, max(topm or 64, topk))
            np.testing.assert_array_equal(event.result.distances[row], distances)
            np.testing.assert_array_equal(event.result.labels[row], labels)
    assert engine.rows_in_flight == 0


def test_it_finds_as_much_as_the_compiled_search_of_a_cpu(graph):
    """They set out at other entry points, so they may come to other nodes."""
    queries = graph.queries(40, 7)
    ours = np.stack([alone(graph, query, 10, 64)[1] for query in queries])
    theirs = np.stack([graph.alone(query, 10, 64)[1] for query in queries])
    both = (ours[:, :, None] == theirs[:, None, :]).any(axis=1)
    assert both.mean() > 0.95


def test_a_number_of_candidates_between_two_batches_finds_no_less(graph):
    worker, query, slot = on_device(graph), graph.queries(1, 3), np.zeros(1, np.int64)
    worker.start([0], query, 40)
    assert worker.advance(slot, 1 << 30, 0).over == [0]
    distances, labels = worker.top(slot, 20)
    expected = alone(graph, query[0], 20, 64)
    np.testing.assert_array_equal(labels[0], expected[1])
    np.testing.assert_array_equal(distances[0], expected[0])


def test_a_quantum_ends_a_step_and_to_begin_counts(graph):
    worker, slots = on_device(graph), np.arange(3)
    worker.start([0, 1, 2], graph.queries(3), 128)
    first = worker.advance(slots, 1, 0)
    assert first.seeded == 3
    assert first.extends == int(worker.extends[:3].sum()) > 0
    assert first.over == []
    second = worker.advance(slots, 1 << 30, 0)
    assert second.seeded == 0
    assert sorted(second.over) == [0, 1, 2]
    worker.start([1], graph.queries(1, 9), 128)
    assert worker.extends[1] == 0
    again = worker.advance(np.array([1]), 20, 15)
    assert again.extends < first.extends + second.extends


def test_what_was_deleted_or_is_not_allowed_is_passed_and_not_found(graph):
    query, slot = graph.queries(1, 5), np.zeros(1, np.int64)
    workers = on_device(graph), NumbaWorker(LiveGraph(graph.index), 8)
    found = []
    for worker in workers:
        worker.start([0], query, 64)
        worker.advance(slot, 1 << 30, 0)
        _, labels = worker.top(slot, 10)
        rest = np.setdiff1d(graph.labels, labels[0, :5])
        allowed = Allowed.of(np.sort(rest), is_few=False)
        found.append(worker.top(slot, 5, allowed))
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)


def test_without_a_graph_every_search_is_over_at_once(graph):
    worker, slots = DeviceWorker(LiveGraph(None), CPU, 4, reference.extend), np.arange(2)
    worker.start([0, 1], np.zeros((2, 0), np.float32), TOPM_MIN)
    assert worker.advance(slots, 1, 0).over == [0, 1]
    worker.serve(LiveGraph(graph.index))
    worker.start([0], graph.queries(1), TOPM_MIN)
    worker.advance(slots[:1], 1 << 30, 0)
    assert (worker.top(slots[:1], 3)[1] >= 0).all()


@pytest.mark.parametrize("parents", [1])
def test_the_kernel_serves_as_well(graph, parents):
    pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")
    device = torch.device("cuda") if torch.cuda.is_available() else CPU  # else it is interpreted
    worker, query, slot = DeviceWorker(LiveGraph(graph.index), device, 1), graph.queries(1), [0]
    worker.start(slot, query, TOPM_MIN)
    worker.advance(np.zeros(1, np.int64), 1 << 30, 0)
    expected = graph.alone(query[0], 5, TOPM_MIN)
    np.testing.assert_array_equal(worker.top(np.zeros(1, np.int64), 5)[1][0], expected[1])
