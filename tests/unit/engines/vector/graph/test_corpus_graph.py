"""A corpus searched by a graph: followed, built anew, kept in a file, hits as the graph's alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core import gauges
from heddle.core.commands import Admit, Cancel
from heddle.core.errors import StorageError
from heddle.core.frames import Cancelled, Done, Failed
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.search_scope import SearchScope
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.graph import corpus_graph, live_graph
from heddle.engines.vector.graph.corpus_graph import FollowedGraph, build_live, read_live
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.worker import NumbaWorker


def quiet(phase, done, count):
    """Hear of a build."""


class Served:
    """An engine over a corpus and its graph, as a lane has it."""

    def __init__(self, tools, directory, source, slots=8, make=build_live):
        self.tools, self.source = tools, source
        live = read_live(directory, source)
        worker = NumbaWorker(live, slots)
        self.rebuild = Rebuild(lambda: make(directory, source, quiet), tools.Clock())
        corpus = FollowedGraph(live, worker, source, self.rebuild)
        self.engine = graph_engine("graph", 1, worker, tools.Clock(), corpus)

    def found(self, queries, topk=1, **options):
        payload = SearchPayload(queries, topk, **options)
        task = Task(999, PrimitiveKind.SEARCHING, Identity(999, "search"), payload)
        self.engine.apply(Admit(task, 0))
        return self.tools.terminals(self.tools.drain(self.engine))[999].result


@pytest.fixture
def few_changes(monkeypatch):
    """Let a graph be outgrown by 20 changes."""
    monkeypatch.setattr(live_graph, "CHANGED_MIN", 20)
    monkeypatch.setattr(live_graph, "CHANGED_SHARE", 0.0)


def exact(queries, vectors):
    """Squared distances to vectors as a graph keeps them, ascending."""
    kept = vectors.astype(np.float16).astype(np.float32)
    return np.sort(((queries[:, None] - kept[None]) ** 2).sum(-1), axis=1)


def found_all(served, vectors):
    """Whether each vector is found, up to what float16 leaves of it."""
    return (served.found(vectors).distances < 1e-5).all()


def test_hits_are_those_of_the_graph_alone(graph, tmp_path):
    tools = graph.tools
    source = tools.Source(graph.vectors)
    build_live(tmp_path, source, quiet)
    served, queries = Served(tools, tmp_path, source), graph.queries(6)
    hits = served.found(queries, 5)
    alone = type(graph)(graph.vectors, read_live(tmp_path, source).graph, tools)
    for row, query in enumerate(queries):
        distances, labels = alone.alone(query, 5, 64)
        np.testing.assert_array_equal(hits.distances[row], distances)
        np.testing.assert_array_equal(hits.labels[row], labels)
    assert hits.revision == source.revision
    assert hits.counts.nodes_opened > 6


def test_what_is_added_and_deleted_shows_at_the_next_search(tools, tmp_path):
    vectors = tools.clustered(400, clusters=200)
    source = tools.Source(vectors[:300])
    build_live(tmp_path, source, quiet)
    served = Served(tools, tmp_path, source)
    source.store_vectors(range(301, 401), vectors[300:])
    assert found_all(served, vectors[300:])
    before = served.found(vectors[:1], 5).labels[0].tolist()
    source.delete(before)
    after = served.found(vectors[:1], 5)
    assert not set(before) & set(after.labels[0].tolist())
    assert after.revision == source.revision


def test_k_is_filled_where_most_of_what_a_graph_finds_is_deleted(tools, tmp_path):
    vectors = tools.clustered(300)
    source = tools.Source(vectors)
    build_live(tmp_path, source, quiet)
    served = Served(tools, tmp_path, source)
    near = served.found(vectors[:1], 200).labels[0].tolist()
    source.delete(near)
    left = np.array(sorted(source.rows)) - 1
    hits = served.found(vectors[:1], 30)
    np.testing.assert_allclose(hits.distances, exact(vectors[:1], vectors[left])[:, :30], rtol=1e-5)
    source.delete(sorted(source.rows)[3:])
    assert (served.found(vectors[:1], 30).labels >= 0).sum() == 3


def test_only_what_is_in_scope_is_found_and_k_is_filled(tools, tmp_path):
    vectors = tools.clustered(300)
    source = tools.Source(vectors)
    build_live(tmp_path, source, quiet)
    served = Served(tools, tmp_path, source)
    mine = np.arange(1, 301, 40)
    source.metadata["owner", "me"] = mine.tolist()
    hits = served.found(vectors[:2], len(mine), scope=SearchScope(where=(("owner", ("me",)),)))
    assert np.isin(hits.labels, mine).all()
    np.testing.assert_allclose(hits.distances, exact(vectors[:2], vectors[mine - 1]), rtol=1e-5)


def test_a_search_that_has_begun_finds_nothing_of_a_tenant_that_comes_later(tools, tmp_path):
    vectors = tools.clustered(400)
    source = tools.Source(vectors[:300])
    build_live(tmp_path, source, quiet)
    served = Served(tools, tmp_path, source, slots=2)
    engine, near = served.engine, np.repeat(vectors[350:351], 3, axis=0)
    engine.apply(tools.search(1, near, 3))
    engine.step(0.0, 1e-9)
    assert engine.rows_in_flight == 2  # a row waits
    source.tenants.update(dict.fromkeys(range(301, 401), "other"))
    source.store_vectors(range(301, 401), vectors[300:])
    engine.apply(tools.search(2, near, 3))
    ended = tools.terminals(tools.drain(engine))
    for task_id in (1, 2):
        hits = ended[task_id].result
        assert ((hits.labels >= 1) & (hits.labels <= 300)).all()
    assert ended[1].result.revision == 1


def test_vectors_are_stored_through_the_lane(tools, tmp_path):
    source = tools.Source()
    served = Served(tools, tmp_path, source)
    assert (served.found(tools.clustered(2), 3).labels == -1).all()
    vectors = tools.clustered(40)
    served.engine.apply(tools.ingest(1, range(1, 41), vectors))
    served.engine.apply(tools.ingest(4, [52], vectors[:1]))
    served.engine.apply(Cancel(4))
    ended = tools.terminals(tools.drain(served.engine))
    assert ended[1].result.count == 40
    assert found_all(served, vectors)
    served.engine.apply(tools.ingest(2, [50], np.full((1, tools.dims), np.nan, np.float32)))
    served.engine.apply(tools.ingest(3, [51], vectors[:1, :3]))
    ended |= tools.terminals(tools.drain(served.engine))
    assert isinstance(ended[2], Failed)
    assert isinstance(ended[3], Failed)
    assert isinstance(ended[4], Cancelled)


def test_an_outgrown_graph_is_built_anew_while_it_serves(tools, tmp_path, few_changes):
    vectors = tools.clustered(300, clusters=150)
    source = tools.Source(vectors[:200])
    build_live(tmp_path, source, quiet)
    served = Served(tools, tmp_path, source)
    source.store_vectors(range(201, 231), vectors[200:230])
    assert served.found(vectors[:1]).revision == 2
    served.rebuild.wait()
    source.store_vectors(range(231, 301), vectors[230:])  # after the build
    assert found_all(served, vectors)
    assert read_live(tmp_path, source).nodes >= 230
    served.rebuild.wait()


def test_frames_tell_why_no_better_graph_is_there(tools, tmp_path, few_changes):
    vectors = tools.clustered(300)
    source = tools.Source(vectors[:200])
    build_live(tmp_path, source, quiet)
    served = Served(tools, tmp_path, source, make=lambda *_: 1 / 0)
    assert served.engine.step(0.0, 1.0).notes == ()
    source.store_vectors(range(201, 301), vectors[200:])
    assert served.found(vectors[:1]).revision == 2
    served.rebuild.wait()
    frame = served.engine.step(0.0, 1.0)
    [note] = frame.notes
    assert "another could not be made: division by zero" in note
    assert frame.gauges == {gauges.INDEX_REVISION: 2, gauges.INDEX_VECTORS: 300}


def test_a_new_graph_waits_for_the_searches_in_flight(tools, tmp_path, few_changes):
    vectors = tools.clustered(900)
    source = tools.Source(vectors[:800])
    build_live(tmp_path, source, quiet)
    served = Served(tools, tmp_path, source)
    engine = served.engine
    source.store_vectors(range(801, 901), vectors[800:])
    engine.apply(tools.search(1, vectors[:2], 3))
    engine.step(0.0, 1e-9)
    served.rebuild.wait()
    engine.apply(tools.search(2, vectors[:2], 3))
    engine.step(0.0, 1e-9)
    assert engine.rows_in_flight == 2
    ended = tools.terminals(tools.drain(engine))
    for task_id in (1, 2):
        np.testing.assert_allclose(
            ended[task_id].result.distances, exact(vectors[:2], vectors)[:, :3], atol=1e-5
        )


def test_a_file_that_can_not_be_trusted_costs_time_only(tools, tmp_path, caplog):
    vectors = tools.clustered(200)
    source = tools.Source(vectors)
    build_live(tmp_path, source, quiet)
    path = graph_path(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    served = Served(tools, tmp_path, source)
    assert "truncated" in caplog.text
    assert found_all(served, vectors)
    corpus_graph.refresh_graph(tmp_path, source, quiet)
    assert read_live(tmp_path, source).nodes == 200


@pytest.mark.parametrize(
    "other", ["another embedder", "an older corpus", "other vectors", "a restore"]
)
def test_a_foreign_file_is_not_used(tools, tmp_path, caplog, other):
    vectors = tools.clustered(60)
    source = tools.Source(vectors)
    if other == "an older corpus":
        source.store_vectors([61], vectors[:1])
    build_live(tmp_path, source, quiet)
    mine = tools.Source(vectors[:50] if other == "other vectors" else vectors)
    if other == "another embedder":
        mine.embedder = "other/16"
    if other == "a restore":
        mine.origin = "1.1.30012"
    live = read_live(tmp_path, mine)
    assert live.graph is None
    assert live.count == mine.vector_count
    assert "built again" in caplog.text


def test_a_file_that_can_not_be_trusted_is_told_until_another_graph_is_there(tools, tmp_path):
    vectors = tools.clustered(60)
    source = tools.Source(vectors)
    build_live(tmp_path, source, quiet)
    content = graph_path(tmp_path).read_bytes()
    graph_path(tmp_path).write_bytes(content[:-1] + b"x")
    served = Served(tools, tmp_path, source)
    assert found_all(served, vectors)
    served.rebuild.wait()
    assert served.found(vectors[:1]).notes == ()
    assert served.engine.step(0.0, 1.0).notes == ()
    assert read_live(tmp_path, source).nodes == 60


def test_hits_tell_that_there_is_no_graph_yet_and_frames_do_not(tools, tmp_path, monkeypatch):
    vectors = tools.clustered(60)
    source = tools.Source(vectors)
    build_live(tmp_path, source, quiet)
    graph_path(tmp_path).write_bytes(b"something else")
    monkeypatch.setattr(Rebuild, "start", lambda self: None)
    served = Served(tools, tmp_path, source)
    hits, frame = served.found(vectors[:2], 3), served.engine.step(0.0, 1.0)
    [note] = hits.notes
    assert frame.notes == (), "one is built: nothing is to be mended"
    assert "is no graph file of this version" in note
    assert "each search compares all vectors until one is built" in note
    np.testing.assert_allclose(hits.distances, exact(vectors[:2], vectors)[:, :3], atol=1e-5)


def test_an_index_run_builds_only_what_is_not_there(tools, tmp_path, few_changes):
    vectors = tools.clustered(120)
    source, phases = tools.Source(vectors[:80]), []
    corpus_graph.refresh_graph(tmp_path, source, lambda phase, done, count: phases.append(phase))
    assert set(phases) == {"clusters", "neighbours", "edges"}
    made = graph_path(tmp_path).stat().st_mtime_ns
    source.store_vectors([81], vectors[80:81])
    corpus_graph.refresh_graph(tmp_path, source, quiet)
    assert graph_path(tmp_path).stat().st_mtime_ns == made
    source.store_vectors(range(82, 121), vectors[81:])
    corpus_graph.refresh_graph(tmp_path, source, quiet)
    assert read_live(tmp_path, source).nodes == 120


def test_a_full_disk_keeps_the_graph_in_memory(tools, tmp_path, monkeypatch, caplog):
    def refuse(path, index):
        raise StorageError("no space left")

    monkeypatch.setattr(corpus_graph, "write_graph", refuse)
    source = tools.Source(tools.clustered(50))
    assert build_live(tmp_path, source, quiet).nodes == 50
    assert "no space left" in caplog.text
    with pytest.raises(StorageError, match="no space left"):
        corpus_graph.refresh_graph(tmp_path, source, quiet)


def test_a_corpus_that_can_not_be_read_fails_new_searches_only(tools, tmp_path, monkeypatch):
    vectors = tools.clustered(500)
    source = tools.Source(vectors[:400])
    build_live(tmp_path, source, quiet)
    served = Served(tools, tmp_path, source)
    served.engine.apply(tools.search(1, vectors[:1], 3))
    served.engine.step(0.0, 1e-9)
    source.store_vectors(range(401, 501), vectors[400:])

    def refuse(after_revision):
        raise StorageError("the disk failed")

    with monkeypatch.context() as patch:
        patch.setattr(source, "deleted", refuse)
        served.engine.apply(tools.search(2, vectors[:1], 3))
        ended = tools.terminals(tools.drain(served.engine))
    assert isinstance(ended[1], Done)
    assert "the disk failed" in ended[2].message
    assert found_all(served, vectors[400:])


def test_rows_that_wait_for_a_corpus_that_can_not_be_read_fail(tools, tmp_path, monkeypatch):
    vectors = tools.clustered(500)
    source = tools.Source(vectors[:400])
    build_live(tmp_path, source, quiet)
    served = Served(tools, tmp_path, source, slots=2)
    served.engine.apply(tools.search(1, vectors[:4], 3))
    served.engine.step(0.0, 1e-9)
    source.store_vectors(range(401, 501), vectors[400:])

    def refuse(after_revision):
        raise StorageError("the disk failed")

    monkeypatch.setattr(source, "deleted", refuse)
    served.engine.apply(tools.search(2, vectors[:1], 3))
    ended = tools.terminals(tools.drain(served.engine))
    assert all("the disk failed" in ended[task_id].message for task_id in (1, 2))
    assert served.engine.rows_in_flight == 0


@settings(max_examples=30)
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(["add", "delete", "search", "build"]), st.integers(1, 40)),
        min_size=4,
        max_size=20,
    ),
    seed=st.integers(0, 50),
)
def test_every_search_sees_what_was_committed_before_it(tools, tmp_path_factory, changes, seed):
    rng, vectors = np.random.default_rng(seed), tools.clustered(1000, clusters=300, seed=seed)
    directory = tmp_path_factory.mktemp("corpus")
    source = tools.Source(vectors[:100])
    served, count = Served(tools, directory, source), 100
    for change, amount in changes:
        if change == "add":
            source.store_vectors(
                range(count + 1, count + amount + 1), vectors[count : count + amount]
            )
            count += amount
        elif change == "delete":
            source.delete(rng.permutation(sorted(source.rows))[:amount].tolist())
        elif change == "build":
            served.rebuild.start()
            served.rebuild.wait()
        else:
            there = np.array(sorted(source.rows), np.int64)
            queries = vectors[rng.integers(0, 1000, 2)]
            hits = served.found(queries, 3, topm=128)
            assert np.isin(hits.labels[hits.labels >= 0], there).all()
            assert (hits.labels >= 0).sum() == 2 * min(3, len(there))
            assert len(np.unique(hits.labels[0])) == min(3, len(there)) + (len(there) < 3)
