"""A corpus directory served by its graph, and how it comes to that and leaves it again."""

import logging

import pytest

from heddle.core.errors import ConfigError
from heddle.core.primitives import PrimitiveKind
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.store import CorpusStore, EmbedderStamp
from heddle.engines.vector.build import VectorSettings, build_engine, refresh_index
from heddle.engines.vector.files.index_kind import SearchMode
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.graph import live_graph
from heddle.engines.vector.graph.graph_searches import NO_CLUSTERS, GraphSearches
from heddle.engines.vector.ivf.hot.setting import HotSettings
from heddle.engines.vector.ivf.ivf_searches import TOPM_UNUSED, IvfSearches
from heddle.engines.vector.pool.build import PoolSettings
from heddle.engines.vector.pool.engine import PoolEngine
from heddle.engines.vector.pool.policies import PoolPolicy

COUNT = 300


@pytest.fixture
def corpus(tools, tmp_path):
    """A directory with vectors, and these."""
    vectors = tools.clustered(COUNT)
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(EmbedderStamp("fake", tools.dims, "float32"))
        put(store, "d", vectors)
    return tmp_path, vectors


def put(store, name, vectors):
    chunks = [TextChunk(i, "title", f"{name} {i}") for i in range(len(vectors))]
    store.documents.put_document(Document(name, "title", "text", f"{name}.txt"), chunks)
    ids = [chunk.chunk_id for chunk in store.documents.pending_chunks(len(vectors))]
    store.store_vectors(ids, vectors)


def found(tools, engine, vectors):
    engine.apply(tools.search(1, vectors, 1))
    return tools.terminals(tools.drain(engine))[1].result


@pytest.mark.slow
def test_the_mode_decides_what_serves_and_stays_until_another_is_asked_for(tools, corpus):
    directory, vectors = corpus
    phases = []
    refresh_index(directory, SearchMode.GRAPH, lambda phase, done, of: phases.append((done, of)))
    assert phases[-1] == (COUNT, COUNT)
    refresh_index(directory)
    engine = build_engine("vector", 7, VectorSettings(directory))
    assert isinstance(engine.method, GraphSearches)
    assert engine.kinds == {PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION}
    hits = found(tools, engine, vectors)
    assert (hits.distances < 1e-5).all()
    engine.close()
    assert not list(directory.glob("*-wal"))
    refresh_index(directory, SearchMode.AUTO)
    assert not graph_path(directory).exists()
    engine = build_engine("vector", 8, VectorSettings(directory))
    assert isinstance(engine.method, IvfSearches)


@pytest.mark.slow
def test_a_running_server_brings_no_graph_back_once_lists_are_chosen(
    tools, corpus, monkeypatch, caplog
):
    monkeypatch.setattr(live_graph, "CHANGED_MIN", 20)
    monkeypatch.setattr(live_graph, "CHANGED_SHARE", 0.0)
    directory, _ = corpus
    refresh_index(directory, SearchMode.GRAPH)
    engine = build_engine("vector", 1, VectorSettings(directory))
    refresh_index(directory, SearchMode.AUTO)
    new = tools.clustered(30, seed=9)
    with CorpusStore.open(directory) as store:
        put(store, "new", new)
    with caplog.at_level(logging.INFO, "heddle"):
        assert (found(tools, engine, new).distances < 1e-5).all()  # the graph is outgrown now
        engine.close()  # which waits for the next one
    assert not graph_path(directory).exists()
    assert "another kind of index was asked for" in caplog.text


@pytest.mark.parametrize("mode", [SearchMode.AUTO, SearchMode.GRAPH])
def test_a_pool_stands_before_either(tools, corpus, mode):
    directory, vectors = corpus
    refresh_index(directory, mode)
    pool = PoolSettings(PoolPolicy.DECODE_FIRST, slots=2)
    engine = build_engine("vector", 1, VectorSettings(directory, pool=pool))
    assert isinstance(engine, PoolEngine)
    assert engine.scheduler.policy is PoolPolicy.DECODE_FIRST
    hits = found(tools, engine, vectors[:3])
    assert (hits.distances < 1e-5).all()
    assert hits.counts.search_wait_s >= 0.0
    engine.close()
    assert not list(directory.glob("*-wal"))


def test_what_a_graph_has_no_use_for_is_told_with_every_search(tools, corpus, caplog):
    directory, vectors = corpus
    refresh_index(directory, SearchMode.GRAPH)
    settings = VectorSettings(
        directory,
        nprobe=4,
        hot=HotSettings(0.2, "cpu"),
        target_recall=0.9,
        speculates=True,
        must_speculate=True,
    )
    engine = build_engine("vector", 1, settings)
    told = ("nprobe", "hot_clusters", "target recall", "speculative")
    notes = tuple(f"{name}: {NO_CLUSTERS}" for name in told)
    assert found(tools, engine, vectors[:1]).notes == notes
    assert engine.step(0.0, 1.0).notes == (), "a server is not degraded by them"
    assert all(note in caplog.text for note in notes)
    engine.close()


def test_the_effort_of_a_graph_is_told_to_be_unused_by_lists(tools, corpus):
    directory, vectors = corpus
    engine = build_engine("vector", 1, VectorSettings(directory, topm=32))
    assert found(tools, engine, vectors[:1]).notes == (TOPM_UNUSED,)
    assert engine.step(0.0, 1.0).notes == ()
    engine.close()


def test_a_lane_keeps_as_many_candidates_as_its_settings_say_and_checks_itself(tools, corpus):
    directory, vectors = corpus
    refresh_index(directory, SearchMode.GRAPH)
    extends = []
    for topm in (8, None, 200):
        engine = build_engine("vector", 1, VectorSettings(directory, topm=topm))
        extends.append(found(tools, engine, vectors).counts.nodes_opened)
        tools.drain(engine)
        assert engine.step(0.0, 1.0).recall.checks > 0  # of 300 searches
        engine.close()
    assert extends == sorted(set(extends))


def test_settings_out_of_range_are_named(tmp_path):
    with pytest.raises(ConfigError, match="topm"):
        VectorSettings(tmp_path, topm=0)
    with pytest.raises(ConfigError, match="twice as many"):
        VectorSettings(tmp_path, slots=6, pool=PoolSettings(PoolPolicy.FIFO, slots=4))
    with pytest.raises(ConfigError, match="pool slots"):
        PoolSettings(PoolPolicy.FIFO, slots=0)
    with pytest.raises(ConfigError, match="prefill_slo_s"):
        PoolSettings(PoolPolicy.FIFO, prefill_slo_s=0.0)
