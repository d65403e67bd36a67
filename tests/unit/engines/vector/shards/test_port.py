"""Scatter and merge: the hits of the whole, and what a lost worker does to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.commands import Admit, Cancel, Steer
from heddle.core.counts import SearchCounts
from heddle.core.credits import Credits
from heddle.core.frames import Cancelled, Done, Failed, Frame, Load
from heddle.core.gauges import (
    INDEX_REVISION,
    INDEX_VECTORS,
    POOL_FREE,
    POOL_RUNNING,
    POOL_WAITING,
)
from heddle.core.payloads import IngestPayload, SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits, Ingested, RankedHits, RecallEstimate
from heddle.core.tasks import Identity, Priority, Task
from heddle.engines.vector.shards.port import NO_WORDS, LostShard, ShardedPort, merged


class Worker:
    """An EnginePort that records its commands and returns the frames given to `tell`."""

    kinds = frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION})
    epoch = 3

    def __init__(self, name):
        self.name, self.credits = name, Credits(9)
        self.sent, self.told, self.is_up = [], [], True

    def send(self, command):
        self.sent.append(command)

    def tell(self, *events, **state):
        self.told.append(Frame(self.name, self.epoch, 0.1, events, number=1, **state))

    def frames(self):
        told, self.told = self.told, []
        return told

    def subscribe(self, wake):
        self.wake = wake


class Pool:
    """A sharded port over three workers."""

    def __init__(self, lost_shard=LostShard.DEGRADE):
        self.workers = [Worker(f"vector-{i}") for i in range(3)]
        self.port = ShardedPort(
            "vector", self.workers, lambda worker: worker.is_up, lost_shard, Credits(9)
        )

    def search(self, task_id=1, topk=2):
        payload = SearchPayload(np.zeros((1, 4), np.float32), topk)
        self.port.send(admit(task_id, PrimitiveKind.SEARCHING, payload))

    def events(self):
        frames = self.port.frames()
        assert all((f.lane, f.epoch, f.number) == ("vector", 1, 0) for f in frames)
        return [event for frame in frames for event in frame.events]


def admit(task_id, kind, payload):
    return Admit(Task(task_id, kind, Identity(task_id, "find"), payload))


def hits(*pairs, revision=5, **about):
    labels, distances = zip(*pairs, strict=True)
    return Hits(np.array([labels]), np.array([distances], np.float32), revision=revision, **about)


def test_one_worker_looks_for_words():
    pool = Pool()
    pool.workers[0].is_up = False
    payload = SearchPayload(np.zeros((1, 4), np.float32), 2, words=("pier",))
    pool.port.send(admit(1, PrimitiveKind.SEARCHING, payload))
    assert [w.sent[0].task.payload.words for w in pool.workers[1:]] == [("pier",), None]
    ranked = RankedHits(np.array([[7]]), np.array([[0.7]], np.float32))
    pool.workers[2].tell(Done(1, hits((5, 0.5))))
    pool.workers[1].tell(Done(1, hits((3, 0.3), by_words=ranked)))
    (event,) = pool.events()
    assert event.result.by_words is ranked


def with_words(pool):
    payload = SearchPayload(np.zeros((1, 4), np.float32), 2, words=("pier",))
    pool.port.send(admit(1, PrimitiveKind.SEARCHING, payload))
    return RankedHits(np.array([[7]]), np.array([[0.7]], np.float32))


def test_where_the_worker_with_the_words_is_lost_another_looks_for_them():
    pool = Pool()
    ranked = with_words(pool)
    pool.workers[1].tell(Done(1, hits((3, 0.3))))
    pool.workers[0].is_up = False
    pool.workers[0].tell(Failed(1, "the lane was lost"))
    pool.workers[2].tell(Done(1, hits((5, 0.5))))
    assert pool.events() == []
    assert [w.sent[-1].task.payload.words for w in pool.workers[1:]] == [("pier",), None]
    pool.workers[1].tell(Done(1, hits((3, 0.3), by_words=ranked)))
    (event,) = pool.events()
    assert event.result.by_words is ranked
    assert event.result.labels.tolist() == [[3, 5]]
    assert event.result.notes == ("2 of 3 index shards answered: the lane was lost",)


def test_who_is_lost_while_it_looks_for_words_again_keeps_what_it_found():
    pool = Pool()
    with_words(pool)
    pool.workers[1].tell(Done(1, hits((3, 0.3))))
    pool.workers[2].tell(Done(1, hits((5, 0.5))))
    for worker in pool.workers[:2]:
        worker.tell(Failed(1, f"{worker.name} was lost"))
        assert pool.events() == []
    pool.workers[2].tell(Failed(1, "vector-2 was lost"))
    (event,) = pool.events()
    assert [len(worker.sent) for worker in pool.workers] == [1, 2, 2]
    assert event.result.labels.tolist() == [[3, 5]]
    assert event.result.by_words is None
    assert event.result.notes == (
        "2 of 3 index shards answered: vector-0 was lost",
        NO_WORDS,
    )


def test_with_nobody_left_for_the_words_the_receipt_names_the_cause():
    pool = Pool()
    with_words(pool)
    for worker in pool.workers[1:]:
        worker.tell(Done(1, hits((3, 0.3) if worker is pool.workers[1] else (5, 0.5))))
        worker.is_up = False
    pool.workers[0].tell(Failed(1, "the lane was lost"))
    (event,) = pool.events()
    assert event.result.labels.tolist() == [[3, 5]]
    assert event.result.notes[-1] == NO_WORDS


def test_a_search_that_looks_for_words_again_can_be_cancelled():
    pool = Pool()
    with_words(pool)
    for worker in pool.workers[1:]:
        worker.tell(Done(1, hits((3, 0.3))))
    pool.workers[0].tell(Failed(1, "the lane was lost"))
    assert pool.events() == []
    pool.port.send(Cancel(1))
    assert isinstance(pool.workers[1].sent[-1], Cancel)
    pool.workers[1].tell(Cancelled(1))
    assert pool.events() == [Cancelled(1)]


def test_where_all_shards_are_needed_nobody_looks_for_words_again():
    pool = Pool(LostShard.FAIL)
    with_words(pool)
    for worker in pool.workers[1:]:
        worker.tell(Done(1, hits((3, 0.3))))
    pool.workers[0].tell(Failed(1, "the lane was lost"))
    assert pool.events() == [Failed(1, "the lane was lost")]


def test_a_search_is_over_when_every_worker_has_answered():
    pool = Pool()
    pool.search()
    for worker in pool.workers:
        assert worker.sent[0].task.task_id == 1
    pool.workers[0].tell(
        Done(1, hits((3, 0.3), (6, 0.6), counts=SearchCounts(nodes_opened=4, search_wait_s=0.2)))
    )
    pool.workers[2].tell(
        Done(
            1,
            hits(
                (5, 0.5),
                (8, 0.8),
                revision=4,
                counts=SearchCounts(nodes_opened=1, search_wait_s=0.1),
            ),
        )
    )
    assert pool.events() == []
    pool.workers[1].tell(
        Done(1, hits((1, 0.1), (-1, np.inf), counts=SearchCounts(searches_parked=2)))
    )
    (event,) = pool.events()
    found = event.result
    assert found.labels.tolist() == [[1, 3]]
    assert found.revision == 4
    assert found.counts == SearchCounts(nodes_opened=5, search_wait_s=0.2, searches_parked=2)
    assert found.notes == ()


def test_the_state_of_the_whole_is_that_of_all_workers():
    pool = Pool()
    pool.workers[0].tell(notes=("a", "b"), gauges={INDEX_REVISION: 7, INDEX_VECTORS: 30})
    pool.workers[1].tell(gauges={INDEX_REVISION: 9, INDEX_VECTORS: 40})
    pool.workers[2].tell(notes=("b",), gauges={INDEX_REVISION: 8, INDEX_VECTORS: 50})
    whole = pool.port.frames()[-1]
    assert whole.notes == ("a", "b")
    assert whole.gauges == {INDEX_REVISION: 7, INDEX_VECTORS: 120}
    pool.workers[0].tell()  # a host's, that knows nothing of the engine
    [whole] = pool.port.frames()
    assert (whole.notes, whole.gauges) == (("b",), {INDEX_REVISION: 8, INDEX_VECTORS: 90})


def test_the_whole_is_as_busy_as_its_busiest_worker_and_finds_what_the_worst_finds():
    pool = Pool()
    for worker, running, recall in zip(pool.workers, (2, 4, 1), (0.97, 0.9, None), strict=True):
        slots = {POOL_RUNNING: running, POOL_FREE: 4 - running, POOL_WAITING: 2 * running}
        estimate = None if recall is None else RecallEstimate(recall, recall - 0.05, 64)
        worker.tell(load=Load(running, 3 * running), recall=estimate, gauges=slots)
    whole = pool.port.frames()[-1]
    assert whole.load == Load(running=4, waiting=12)
    assert whole.recall == RecallEstimate(0.9, 0.85, 64)
    assert whole.gauges == {POOL_RUNNING: 4, POOL_FREE: 0, POOL_WAITING: 8}


def test_a_lost_worker_degrades_the_answer_and_it_says_so():
    pool = Pool()
    pool.search()
    pool.workers[0].tell(Done(1, hits((3, 0.3), (6, 0.6))))
    pool.workers[1].tell(Failed(1, "the lane was lost"))
    pool.workers[2].tell(Done(1, hits((5, 0.5), (8, 0.8))))
    (event,) = pool.events()
    assert event.result.labels.tolist() == [[3, 5]]
    assert event.result.notes == ("2 of 3 index shards answered: the lane was lost",)


def test_a_worker_that_is_down_is_not_waited_for():
    pool = Pool()
    pool.workers[1].is_up = False
    pool.search()
    assert not pool.workers[1].sent
    for worker in (pool.workers[0], pool.workers[2]):
        worker.tell(Done(1, hits((3, 0.3), (6, 0.6))))
    (event,) = pool.events()
    assert event.result.notes == ("2 of 3 index shards answered: it is starting again",)


def test_where_all_are_needed_a_lost_worker_fails_the_search():
    pool = Pool(LostShard.FAIL)
    pool.workers[1].is_up = False
    pool.search()
    for worker in pool.workers:
        assert worker.sent
    pool.workers[0].tell(Done(1, hits((3, 0.3), (6, 0.6))))
    pool.workers[1].tell(Failed(1, "the lane was lost"))
    pool.workers[2].tell(Done(1, hits((5, 0.5), (8, 0.8))))
    assert pool.events() == [Failed(1, "the lane was lost")]


@pytest.mark.parametrize("lost_shard", list(LostShard))
def test_with_all_lost_or_a_bad_input_it_fails(lost_shard):
    pool = Pool(lost_shard)
    pool.search(1)
    pool.search(2)
    for worker in pool.workers:
        worker.is_up = False
    pool.search(3)
    for worker in pool.workers:
        assert [command.task.task_id for command in worker.sent] == [1, 2, 3]
        worker.tell(Failed(1, "lost"), Failed(3, "lost"))
    pool.workers[0].tell(Failed(2, "topk", is_input=True))
    for worker in pool.workers[1:]:
        worker.tell(Done(2, hits((3, 0.3), (6, 0.6))))
    assert pool.events() == [Failed(1, "lost"), Failed(3, "lost"), Failed(2, "topk", True)]


def test_cancel_reaches_who_has_not_answered_and_ends_once():
    pool = Pool()
    pool.search()
    pool.workers[0].tell(Done(1, hits((3, 0.3), (6, 0.6))))
    pool.events()
    pool.port.send(Steer(task_id=1, priority=Priority.BULK))
    pool.port.send(Cancel(1))
    pool.port.send(Cancel(77))
    assert [len(worker.sent) for worker in pool.workers] == [1, 3, 3]
    pool.workers[1].tell(Done(1, hits((5, 0.5), (8, 0.8))))
    pool.workers[2].tell(Cancelled(1))
    assert pool.events() == [Cancelled(1)]
    pool.workers[2].tell(Cancelled(1))
    assert pool.events() == []


def test_vectors_are_stored_once_by_who_is_up():
    pool = Pool()
    pool.workers[0].is_up = False
    payload = IngestPayload(np.array([4]), np.zeros((1, 4), np.float32))
    pool.port.send(admit(1, PrimitiveKind.INGESTION, payload))
    assert [len(worker.sent) for worker in pool.workers] == [0, 1, 0]
    pool.workers[1].tell(Done(1, Ingested(1, 9)))
    assert pool.events() == [Done(1, Ingested(1, 9))]


def test_what_is_for_nobody_in_particular_goes_to_all():
    pool = Pool()
    pool.port.send(Steer(budget_s=0.5))
    assert all(worker.sent == [Steer(budget_s=0.5)] for worker in pool.workers)
    woken = []
    pool.port.subscribe(lambda: woken.append(1))
    pool.workers[2].wake()
    assert woken == [1]


@given(
    distances=st.lists(st.floats(0, 4, width=32), min_size=1, max_size=30),
    shards=st.integers(1, 5),
    topk=st.integers(1, 8),
)
def test_merged_parts_are_the_whole(distances, shards, topk):
    chunks = list(enumerate(distances, 1))

    def nearest(pairs):
        pairs = sorted(pairs, key=lambda pair: (pair[1], pair[0]))[:topk]
        return hits(*pairs, *[(-1, np.inf)] * (topk - len(pairs)))

    whole = nearest(chunks)
    parts = [nearest([c for c in chunks if c[0] % shards == n]) for n in range(shards)]
    found = merged(parts, topk)
    np.testing.assert_array_equal(found.distances, whole.distances)
    np.testing.assert_array_equal(found.labels, whole.labels)
