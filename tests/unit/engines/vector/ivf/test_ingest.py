"""Vectors that arrive while the engine serves."""

from unittest.mock import Mock

import numpy as np
import pytest

from heddle.core.commands import Cancel
from heddle.core.errors import DiskFull, StorageError
from heddle.core.frames import Cancelled, Done, Failed
from heddle.core.tasks import Priority
from heddle.engines.vector.corpus.ingest_queue import INGEST_STEPS_MAX
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex


def serve(tools, source, **options):
    corpus = FollowedIvf(LiveIndex.build(source), source)
    return ivf_engine("vector", 0, corpus, tools.Clock(), **options)


def found(tools, engine, queries, topk=1):
    engine.apply(tools.search(999, queries, topk))
    return tools.terminals(tools.drain(engine))[999].result


def test_a_search_after_an_ingest_finds_it(tools):
    vectors = tools.clustered(700)
    source = tools.Source(vectors[:500])
    engine = serve(tools, source)
    engine.apply(tools.ingest(1, range(501, 701), vectors[500:]))
    done = tools.terminals(tools.drain(engine))[1]
    assert (done.result.count, done.result.revision) == (200, 2)
    hits = found(tools, engine, vectors[600:640])
    assert (hits.distances[:, 0] == 0).all()
    assert hits.revision == 2
    assert source.vector_count == 700


def test_a_full_disk_is_told_as_such_and_the_next_ingest_is_stored(tools, monkeypatch):
    vectors = tools.clustered(40)
    source = tools.Source(vectors[:20])
    engine = serve(tools, source)
    with monkeypatch.context() as disk:
        disk.setattr(source, "store_vectors", Mock(side_effect=DiskFull("no room")))
        engine.apply(tools.ingest(1, range(21, 41), vectors[20:]))
        failed = tools.terminals(tools.drain(engine))[1]
    assert failed == Failed(1, "storing vectors failed: no room", is_full=True)
    engine.apply(tools.ingest(2, range(21, 41), vectors[20:]))
    assert isinstance(tools.terminals(tools.drain(engine))[2], Done)


def test_an_empty_corpus_answers_and_can_be_filled(tools):
    source = tools.Source()
    engine = serve(tools, source)
    vectors = tools.clustered(40)
    empty = found(tools, engine, vectors[:2], 3)
    assert empty.labels.tolist() == [[-1] * 3] * 2
    assert np.isinf(empty.distances).all()
    assert empty.counts.lists_probed == 0
    engine.apply(tools.ingest(1, range(1, 41), vectors))
    assert isinstance(tools.terminals(tools.drain(engine))[1], Done)
    hits = found(tools, engine, vectors)
    assert (hits.distances[:, 0] == 0).all()


def test_a_rewritten_or_deleted_chunk_is_not_found_as_it_was(tools):
    vectors = tools.clustered(300, clusters=200)[:30]
    source = tools.Source(vectors)
    engine = serve(tools, source)
    source.delete([3])
    engine.apply(tools.ingest(1, [7], vectors[8:9]))
    tools.drain(engine)
    hits = found(tools, engine, vectors[8:9], 30)
    assert hits.distances[0, :2].tolist() == [0, 0]
    assert hits.labels[0, :2].tolist() == [7, 9]
    assert sorted(hits.labels[0].tolist()) == [-1, *(i for i in range(1, 31) if i != 3)]


def test_searches_in_flight_keep_their_exactness_while_vectors_arrive(tools):
    vectors = tools.clustered(900)
    source = tools.Source(vectors[:600])
    engine = serve(tools, source, lists_per_step=1)
    engine.apply(tools.search(1, vectors[:5], 4))
    engine.step(0.0, 1e9)
    engine.apply(tools.ingest(2, range(601, 901), vectors[600:]))
    hits = tools.terminals(tools.drain(engine, 1e9))[1].result
    exact = ((vectors[:5, None] - vectors[None, :600]) ** 2).sum(-1)
    assert hits.revision == 1
    # What was there when the search began is never missed.
    assert (hits.distances[:, -1] <= np.sort(exact, axis=1)[:, 3] + 1e-5).all()


def test_urgent_searches_go_first_but_not_for_ever(tools):
    vectors = tools.clustered(2000)
    engine = serve(tools, tools.Source(vectors), lists_per_step=1)
    engine.apply(tools.ingest(1, [5000], vectors[:1], priority=Priority.BULK))
    engine.apply(tools.search(2, vectors[:4], 3))
    frames = [engine.step(0.0, 1e9) for _ in range(INGEST_STEPS_MAX + 1)]
    stored = [frame.features["stored"] for frame in frames]
    assert stored == [0.0] * INGEST_STEPS_MAX + [1.0]
    engine.apply(tools.ingest(3, [5001], vectors[:1]))
    assert engine.step(0.0, 1e9).features["stored"] == 1.0


def test_bad_vectors_and_a_full_disk_fail_that_task_alone(tools, monkeypatch):
    vectors = tools.clustered(100)
    source = tools.Source(vectors)
    engine = serve(tools, source)
    engine.apply(tools.ingest(1, [200], np.ones((1, 3), np.float32)))
    engine.apply(tools.ingest(2, [200, 201], vectors[:1]))
    engine.apply(tools.ingest(3, [200], np.full((1, tools.dims), np.inf, np.float32)))
    engine.apply(tools.ingest(6, [200, 201, 200], vectors[:3]))
    ended = tools.terminals(tools.drain(engine))
    assert all(isinstance(ended[i], Failed) and ended[i].is_input for i in (1, 2, 3, 6))
    assert "200 is there 2 times" in ended[6].message
    assert source.vector_count == 100

    def refuse(chunk_ids, vectors):
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(source, "store_vectors", refuse)
        engine.apply(tools.ingest(4, [200], vectors[:1]))
        ended = tools.terminals(tools.drain(engine))
    assert isinstance(ended[4], Failed)
    assert "the disk is full" in ended[4].message
    engine.apply(tools.ingest(5, [200], vectors[:1]))
    assert isinstance(tools.terminals(tools.drain(engine))[5], Done)


def test_an_ingest_can_be_cancelled_before_it_is_stored(tools):
    source = tools.Source(tools.clustered(50))
    engine = serve(tools, source)
    engine.apply(tools.ingest(1, [60], tools.clustered(1)))
    engine.apply(Cancel(1))
    assert isinstance(tools.terminals(tools.drain(engine))[1], Cancelled)
    assert source.vector_count == 50


def test_no_vectors_are_stored_as_none(tools):
    engine = serve(tools, tools.Source(tools.clustered(50)))
    engine.apply(tools.ingest(1, [], np.zeros((0, tools.dims), np.float32)))
    assert tools.terminals(tools.drain(engine))[1].result.count == 0


@pytest.mark.parametrize("count", [1, 2, 63])
def test_corpora_smaller_than_a_list(tools, count):
    vectors = tools.clustered(200)[:count]
    engine = serve(tools, tools.Source(vectors))
    hits = found(tools, engine, vectors, count + 1)
    assert (hits.distances[:, 0] == 0).all()
    assert (hits.labels[:, -1] == -1).all()
