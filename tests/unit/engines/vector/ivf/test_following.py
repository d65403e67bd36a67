"""The index follows what others commit to the corpus, without touching searches in flight."""

import logging
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core import gauges
from heddle.core.commands import Cancel
from heddle.core.errors import StorageError
from heddle.core.frames import Cancelled, Done, Failed, Progress
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf import live_index, stepping_check
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex, nlist_for


def serve(tools, source, rebuild=None, **options):
    corpus = FollowedIvf(LiveIndex.build(source), source, rebuild=rebuild)
    return ivf_engine("vector", 0, corpus, tools.Clock(), **options)


def found(tools, engine, queries, topk=1):
    engine.apply(tools.search(999, queries, topk))
    return tools.terminals(tools.drain(engine))[999].result


def steps_until(engine, task_id):
    """Step until a task ends; return its terminal event and the frames."""
    frames = []
    while True:
        frames.append(engine.step(0.0, 1e9))
        for event in frames[-1].events:
            if event.task_id == task_id:
                return event, frames


def test_a_search_sees_what_others_committed_before_it(tools):
    vectors = tools.clustered(300, clusters=200)
    source = tools.Source(vectors[:200])
    engine = serve(tools, source)
    source.store_vectors(range(201, 301), vectors[200:])
    hits = found(tools, engine, vectors[250:])
    assert (hits.distances[:, 0] == 0).all()
    assert hits.revision == source.revision == 2
    told = engine.step(0.0, 1.0).gauges
    assert told == {gauges.INDEX_REVISION: 2, gauges.INDEX_VECTORS: 300}


def test_what_others_deleted_is_not_found_and_k_is_filled(tools):
    vectors = tools.clustered(60)
    source = tools.Source(vectors)
    engine = serve(tools, source)
    before = found(tools, engine, vectors[:1], 5).labels[0].tolist()
    source.delete(before)
    after = found(tools, engine, vectors[:1], 5).labels[0].tolist()
    assert not set(before) & set(after)
    assert -1 not in after


def test_a_deletion_waits_for_the_searches_in_flight_and_later_ones_for_it(tools):
    vectors = tools.clustered(2000)
    source = tools.Source(vectors)
    engine = serve(tools, source, lists_per_step=1)
    expected = found(tools, engine, vectors[:3], 4)
    engine.apply(tools.search(1, vectors[:3], 4))
    engine.step(0.0, 1e9)
    source.delete(range(1, 2001, 2))
    engine.apply(tools.search(2, vectors[:3], 4))
    first, frames = steps_until(engine, 1)
    assert all(frame.features["followed"] == frame.features["rows"] == 0 for frame in frames)
    np.testing.assert_array_equal(first.result.labels, expected.labels)
    second, frames = steps_until(engine, 2)
    assert frames[0].features["followed"] == 1000
    assert (second.result.labels % 2 == 0).all()
    assert (first.result.revision, second.result.revision) == (1, 2)


def test_vectors_that_are_added_hold_no_search_up(tools):
    vectors = tools.clustered(2500)
    source = tools.Source(vectors[:2000])
    engine = serve(tools, source, lists_per_step=1)
    engine.apply(tools.search(1, vectors[:3], 4))
    engine.step(0.0, 1e9)
    source.store_vectors(range(2001, 2501), vectors[2000:])
    engine.apply(tools.search(2, vectors[2400:2402], 1))
    frame = engine.step(0.0, 1e9)
    assert (frame.features["followed"], frame.features["rows"], frame.load.running) == (500, 2, 5)
    hits = tools.terminals(tools.drain(engine))[2].result
    assert (hits.distances[:, 0] == 0).all()


def test_a_search_that_has_begun_still_gets_slots_for_its_other_rows(tools):
    vectors = tools.clustered(500)
    source = tools.Source(vectors)
    engine = serve(tools, source, slots=2)
    expected = found(tools, engine, vectors[:7], 3)
    engine.apply(tools.search(1, vectors[:7], 3))
    engine.step(0.0, 1e-9)
    source.delete([int(expected.labels[6, 0])])
    engine.apply(tools.search(2, vectors[6:7], 3))
    ended = tools.terminals(tools.drain(engine))
    np.testing.assert_array_equal(ended[1].result.labels, expected.labels)
    assert expected.labels[6, 0] not in ended[2].result.labels


def test_a_long_absence_is_made_up_for_in_pieces(tools, monkeypatch):
    monkeypatch.setattr(live_index, "PIECE_ROWS", 100)
    vectors = tools.clustered(1000)
    source = tools.Source(vectors[:50])
    engine = serve(tools, source)
    source.store_vectors(range(51, 1001), vectors[50:])
    engine.apply(tools.search(1, vectors[990:], 1))
    engine.apply(tools.search(2, vectors[:1], 1))
    engine.step(0.0, 1e9)
    engine.apply(Cancel(2))
    last, frames = steps_until(engine, 1)
    followed = [frame.features["followed"] for frame in frames]
    assert followed == [100] * 8 + [50]
    assert (last.result.distances[:, 0] == 0).all()
    cancelled = [event for frame in frames for event in frame.events if event.task_id == 2]
    assert cancelled == [Cancelled(2)]


def test_a_search_that_comes_meanwhile_sees_what_was_committed_before_it(tools, monkeypatch):
    monkeypatch.setattr(live_index, "PIECE_ROWS", 100)
    vectors = tools.clustered(1000, clusters=500)
    source = tools.Source(vectors[:50])
    engine = serve(tools, source)
    source.store_vectors(range(51, 900), vectors[50:899])
    engine.apply(tools.search(1, vectors[:1], 1))
    engine.step(0.0, 1e9)
    source.store_vectors([900], vectors[899:900])
    engine.apply(tools.search(2, vectors[899:900], 1))
    hits = tools.terminals(tools.drain(engine))[2].result
    assert (hits.labels.tolist(), hits.distances.tolist()) == ([[900]], [[0.0]])


def test_a_corpus_that_cannot_be_read_fails_new_searches_only(tools, monkeypatch):
    vectors = tools.clustered(800)
    source = tools.Source(vectors[:700])
    engine = serve(tools, source, lists_per_step=1)
    engine.apply(tools.search(1, vectors[:2], 3))
    engine.step(0.0, 1e9)
    source.store_vectors(range(701, 801), vectors[700:])

    def refuse(after_revision):
        raise StorageError("the disk failed")

    with monkeypatch.context() as patch:
        patch.setattr(source, "deleted", refuse)
        engine.apply(tools.search(2, vectors[:2], 3))
        ended = tools.terminals(tools.drain(engine))
    assert isinstance(ended[1], Done)
    assert isinstance(ended[2], Failed)
    assert "the disk failed" in ended[2].message
    assert not ended[2].is_input
    assert (found(tools, engine, vectors[700:]).distances[:, 0] == 0).all()


def test_an_interrupted_replay_begins_again(tools, monkeypatch):
    monkeypatch.setattr(live_index, "PIECE_ROWS", 100)
    vectors = tools.clustered(500, clusters=300)
    source = tools.Source(vectors[:100])
    live = LiveIndex.build(source)
    source.store_vectors(range(101, 501), vectors[100:])
    live.advance(source)
    live.advance(source)

    def broken(vectors, labels):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(live.index, "add_with_ids", broken)
        with pytest.raises(MemoryError):
            live.advance(source)
    assert live.revision == 1
    live.follow(source)
    assert (live.revision, live.count) == (2, 500)


def test_another_embedder_is_refused(tools):
    vectors = tools.clustered(10)
    source = tools.Source(vectors)
    engine = serve(tools, source)
    source.delete(range(1, 11))
    source.embedder = "other/16"
    source.store_vectors(range(11, 21), vectors)
    engine.apply(tools.search(1, vectors[:1], 1))
    failed = tools.terminals(tools.drain(engine))[1]
    assert isinstance(failed, Failed)
    assert "other/16" in failed.message
    assert "start the server again" in failed.message


CHANGES = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 40)),
    st.tuples(st.just("delete"), st.integers(1, 15)),
    st.tuples(st.just("search"), st.integers(1, 4)),
    st.tuples(st.just("step"), st.integers(1, 3)),
)


@settings(max_examples=60)
@given(
    changes=st.lists(CHANGES, min_size=5, max_size=40),
    slots=st.sampled_from([2, 64]),
    piece_rows=st.sampled_from([7, 1024]),
    seed=st.integers(0, 99),
)
def test_every_search_has_one_state_of_the_corpus_under_it(tools, changes, slots, piece_rows, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_index, "PIECE_ROWS", piece_rows)
        check_one_state(tools, changes, slots, seed)


def check_one_state(tools, changes, slots, seed):
    rng = np.random.default_rng(seed)
    vectors = tools.clustered(2000, seed=seed)
    source = tools.Source(vectors[:150])
    written = {i: 1 for i in range(1, 151)}  # chunk id -> the revision that wrote it
    deleted = {}
    engine = serve(tools, source, lists_per_step=1, slots=slots)
    asked, events = {}, []
    for number, (change, amount) in enumerate(changes):
        if change == "add":
            ids = range(len(written) + 1, len(written) + amount + 1)
            source.store_vectors(ids, vectors[ids[0] - 1 : ids[-1]])
            written |= dict.fromkeys(ids, source.revision)
        elif change == "delete":
            ids = rng.permutation(sorted(source.rows))[:amount].tolist()
            source.delete(ids)
            deleted |= dict.fromkeys(ids, source.revision)
        elif change == "search":
            queries = vectors[rng.integers(0, 2000, amount)]
            asked[number] = queries, source.revision
            engine.apply(tools.search(number, queries, 5))
        else:
            events += [event for _ in range(amount) for event in engine.step(0.0, 1e9).events]
    ended = tools.terminals(events + tools.drain(engine))
    for number, (queries, revision) in asked.items():
        hits = ended[number].result
        assert hits.revision >= revision
        state = np.array(
            [
                i
                for i, at in written.items()
                if at <= hits.revision < deleted.get(i, hits.revision + 1)
            ]
        )
        exact = np.sort(((queries[:, None] - vectors[state - 1][None]) ** 2).sum(-1), axis=1)
        later = [i for i, at in written.items() if at > hits.revision]
        labels = hits.labels[hits.labels >= 0]
        assert np.isin(labels, [*state, *later]).all()
        # At least as near as what was there, each of the k.
        k = min(5, len(state))
        assert (hits.distances[:, :k] <= exact[:, :k] + 1e-5).all()


# An index that the corpus has outgrown


class HeldRebuild(Rebuild):
    """A rebuild that gets nowhere before it is waited for: else it might overtake the test."""

    def __init__(self, tools, source, clock=None):
        super().__init__(self._make_when_asked, clock or tools.Clock())
        self._source, self._is_asked = source, threading.Event()

    def _make_when_asked(self):
        self._is_asked.wait(timeout=30.0)  # a test that failed waits for nothing
        return LiveIndex.build(self._source)

    def wait(self):
        self._is_asked.set()
        super().wait()


def test_a_lane_that_started_empty_gets_its_clusters_while_it_serves(tools):
    vectors = tools.clustered(1000)
    source = tools.Source()
    rebuild = HeldRebuild(tools, source)
    engine = serve(tools, source, rebuild, lists_per_step=1)
    source.store_vectors(range(1, 951), vectors[:950])
    one_list = found(tools, engine, vectors[:4], 5)
    assert one_list.counts.lists_probed == 4
    rebuild.wait()
    source.store_vectors(range(951, 1001), vectors[950:])  # after the rebuild
    many_lists = found(tools, engine, vectors[:4], 5)
    assert many_lists.counts.lists_probed == 4 * nlist_for(950)
    assert many_lists.revision == source.revision
    np.testing.assert_allclose(
        many_lists.distances, np.sort(exact_distances(vectors[:4], vectors))[:, :5], atol=1e-5
    )


def exact_distances(queries, vectors):
    return ((queries[:, None] - vectors[None]) ** 2).sum(-1)


def test_new_clusters_wait_for_the_searches_in_flight(tools):
    vectors = tools.clustered(3000)
    source = tools.Source(vectors[:300])
    rebuild = HeldRebuild(tools, source)
    engine = serve(tools, source, rebuild, lists_per_step=1)
    source.store_vectors(range(301, 3001), vectors[300:])
    engine.apply(tools.search(1, vectors[:2], 3))
    frame = engine.step(0.0, 1e9)
    while not frame.features["rows"]:  # it follows the corpus in pieces, then begins
        frame = engine.step(0.0, 1e9)
    rebuild.wait()
    engine.apply(tools.search(2, vectors[:2], 3))
    engine.step(0.0, 1e9)
    assert engine.rows_in_flight == 2
    ended = tools.terminals(tools.drain(engine))
    assert ended[1].result.counts.lists_probed == 2 * nlist_for(300)
    assert ended[2].result.counts.lists_probed == 2 * nlist_for(3000)
    np.testing.assert_array_equal(ended[1].result.distances, ended[2].result.distances)


def test_a_corpus_that_is_emptied_and_filled_again(tools):
    vectors = tools.clustered(600)
    source = tools.Source(vectors)
    rebuild = Rebuild(lambda: LiveIndex.build(source), tools.Clock())
    engine = serve(tools, source, rebuild)
    source.delete(range(1, 601))
    for _ in range(2):  # before and after the empty index takes the place of the old one
        assert (found(tools, engine, vectors[:2], 3).labels == -1).all()
        rebuild.wait()
    source.store_vectors(range(601, 651), vectors[:50])
    assert (found(tools, engine, vectors[:50]).distances == 0).all()


def test_clusters_that_cannot_be_made_cost_no_search_and_are_tried_again(tools, caplog):
    vectors = tools.clustered(500)
    source, clock = tools.Source(), tools.Clock()
    tries = []

    def fail_three_times():
        tries.append(clock.time_s)
        if len(tries) <= 3:
            raise StorageError("no memory")
        return LiveIndex.build(source)

    def ask():
        hits = found(tools, engine, vectors[:3])
        rebuild.wait()
        assert (hits.distances == 0).all()
        return hits

    rebuild = Rebuild(fail_three_times, clock)
    engine = serve(tools, source, rebuild)
    source.store_vectors(range(1, 501), vectors)
    with caplog.at_level(logging.WARNING):
        ask()
        source.delete([500])
        notes = ask().notes
    assert "no memory; tried again 10 s later" in notes[0]
    assert engine.step(0.0, 1.0).notes == notes
    assert "no memory; tried again 10 s later" in caplog.text
    for clock.time_s in (9.9, 10.0, 29.9, 30.0, 69.9, 70.0):  # the corpus stays as it is
        ask()
    assert tries == [0.0, 10.0, 30.0, 70.0]
    hits = ask()
    assert (hits.counts.lists_probed, hits.notes) == (3 * nlist_for(499), ())
    assert engine.step(0.0, 1.0).notes == ()


@pytest.mark.parametrize("refused", [1, 2])
def test_an_index_that_fails_its_self_test_is_never_searched(tools, monkeypatch, refused):
    """With 2 the one before fails as well: then searches fail until one of them can be searched."""
    vectors = tools.clustered(1000)
    source, clock = tools.Source(vectors[:300]), tools.Clock()
    rebuild = HeldRebuild(tools, source, clock)
    engine = serve(tools, source, rebuild)
    before = found(tools, engine, vectors[:2], 3)
    source.store_vectors(range(301, 1001), vectors[300:])
    assert found(tools, engine, vectors[:2], 3).revision == 2
    rebuild.wait()
    answers = [False] * refused
    works = stepping_check.steps_change_nothing
    monkeypatch.setattr(
        stepping_check,
        "steps_change_nothing",
        lambda scanner: answers.pop() if answers else works(scanner),
    )
    ends = []
    for task_id in range(refused):
        engine.apply(tools.search(task_id, vectors[:2], 3))
        ends.append(tools.terminals(tools.drain(engine))[task_id])
    if refused == 2:
        assert "can't follow the corpus: FAISS" in ends.pop(0).message
    (hits,) = (end.result for end in ends)
    assert hits.counts.lists_probed == before.counts.lists_probed, (
        "of the index that was searched before"
    )
    assert "searches in steps with other results" in hits.notes[0]
    assert "tried again 10 s later" in hits.notes[0]
    clock.time_s = 10.0
    found(tools, engine, vectors[:2], 3)  # has another one made
    rebuild.wait()
    assert found(tools, engine, vectors[:2], 3).counts.lists_probed == 2 * nlist_for(1000)


def test_a_first_index_that_fails_its_self_test_fails_the_searches(tools, monkeypatch):
    source = tools.Source()
    engine = serve(tools, source)
    works = stepping_check.steps_change_nothing
    monkeypatch.setattr(stepping_check, "steps_change_nothing", lambda scanner: False)
    source.store_vectors(range(1, 51), tools.clustered(50))
    for task_id in (1, 2):
        engine.apply(tools.search(task_id, tools.clustered(2), 3))
        end = tools.terminals(tools.drain(engine))[task_id]
        assert "searches in steps with other results" in end.message
    monkeypatch.setattr(stepping_check, "steps_change_nothing", works)
    assert found(tools, engine, tools.clustered(2), 3).revision == 1


def test_one_that_is_made_and_refused_again_and_again_is_tried_less_often(tools):
    clock = tools.Clock()
    rebuild = Rebuild(lambda: "index", clock)
    pauses = []
    for is_refused in (True, True, True, False, True):
        began_s = clock.time_s
        rebuild.start()
        rebuild.wait()
        rebuild.take()
        if is_refused:
            rebuild.refuse(ValueError("of no use"))
            while not rebuild.is_due:
                clock.time_s += 10.0
        pauses.append(clock.time_s - began_s)
    assert pauses == [10.0, 20.0, 40.0, 0.0, 10.0]


def test_one_for_which_there_is_no_thread_costs_no_search_and_is_tried_again(tools, monkeypatch):
    vectors, clock = tools.clustered(500), tools.Clock()
    source = tools.Source()
    rebuild = Rebuild(lambda: LiveIndex.build(source), clock)
    engine = serve(tools, source, rebuild)
    source.store_vectors(range(1, 501), vectors)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert (found(tools, engine, vectors[:3]).distances == 0).all()
    rebuild.wait()  # as when the lane is closed
    assert "can't start new thread; tried again 10 s later" in rebuild.problem
    clock.time_s = 10.0
    found(tools, engine, vectors[:3])
    rebuild.wait()
    assert found(tools, engine, vectors[:3]).counts.lists_probed == 3 * nlist_for(500)


def test_pauses_between_tries_have_a_bound(tools):
    clock = tools.Clock()
    rebuild = Rebuild(lambda: 1 / 0, clock)
    pauses = []
    for _ in range(40):
        began_s = clock.time_s
        rebuild.start()
        rebuild.wait()
        while not rebuild.is_due:
            clock.time_s += 10.0
        pauses.append(clock.time_s - began_s)
    assert pauses[:4] == [10.0, 20.0, 40.0, 80.0]
    assert set(pauses[6:]) == {600.0}


# Documents of others


@pytest.mark.parametrize("kind", [IndexKind.FLAT, IndexKind.PQ])
@pytest.mark.parametrize("is_in_time", [True, False])
def test_a_search_without_a_filter_never_sees_what_comes_of_others(tools, kind, is_in_time):
    """Neither by itself, nor where the document is committed while a piece is being read."""
    vectors = tools.clustered(900)
    source = tools.Source(vectors[:799])
    live = LiveIndex.build(source, kind=kind)
    engine = ivf_engine("vector", 0, FollowedIvf(live, source), tools.Clock(), lists_per_step=1)
    queries = vectors[800:804]
    engine.apply(tools.search(1, queries, 5, report_every=1))
    told = [*engine.step(0.0, 1e9).events]
    read = source.vectors

    def commit(*_):
        source.vectors = read
        source.store_vectors(range(801, 901), vectors[800:])
        source.tenants = dict.fromkeys(range(801, 901), "ann")
        return read(1)

    if is_in_time:
        commit()
    else:
        source.store_vectors([800], vectors[799:800])
        source.vectors = commit
    engine.apply(tools.search(2, queries, 5))  # it has to see what is committed
    told += tools.drain(engine)
    seen = [event.labels for event in told if isinstance(event, Progress)]
    assert seen
    ends = tools.terminals(told)
    for labels in (*seen, ends[1].result.labels, ends[2].result.labels):
        assert labels.max() <= 800
    assert ends[2].result.revision == source.revision
    assert (ends[2].result.labels > 0).all()
