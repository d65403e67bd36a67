import itertools
import subprocess
import sys

import numpy as np
import pytest

from heddle.core.commands import Admit
from heddle.core.errors import ConfigError
from heddle.core.frames import Done, Progress
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.store import CorpusStore, EmbedderStamp
from heddle.engines.vector.build import VectorSettings, build_engine, refresh_index
from heddle.engines.vector.files import index_kind
from heddle.engines.vector.files.index_kind import SearchMode
from heddle.engines.vector.files.manifest import read_manifest
from heddle.engines.vector.ivf import live_index
from heddle.engines.vector.ivf.index_file import open_index
from heddle.engines.vector.ivf.stepping_check import one_shot
from heddle.engines.vector.shards.part import Part
from tests.helpers.server_state import eventually


@pytest.mark.parametrize(
    "bad",
    [
        {"nprobe": 0},
        {"slots": 0},
        {"threads": -1},
        {"lists_per_step": 0},
        {"substage_budget_s": 0.0},
        {"substage_budget_s": float("nan")},
    ],
)
def test_settings_out_of_range_are_refused_by_name(tmp_path, bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        VectorSettings(tmp_path, **bad)


def test_what_decides_loads_no_faiss():
    code = (
        "import sys, heddle.engines.vector.ivf.ivf_searches, heddle.engines.vector.build;"
        "assert not {'faiss', 'torch', 'sqlite3'} & set(sys.modules), 'too much is loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_words_are_looked_for_in_a_corpus_without_vectors(tools, tmp_path):
    CorpusStore.open(tmp_path, create=True).close()
    engine, ends = build_engine("vector", 1, VectorSettings(tmp_path)), []
    payload = SearchPayload(tools.clustered(2), 3, words=("harbour", "who"))
    engine.apply(Admit(Task(1, PrimitiveKind.SEARCHING, Identity(1, "find"), payload), 0))

    def has_ended():
        ends.extend(e for e in engine.step(0.0, 1.0).events if not isinstance(e, Progress))
        return bool(ends)

    eventually(has_ended)
    engine.close()
    [done] = ends
    assert isinstance(done, Done), done
    assert (done.result.by_words.labels == -1).all()
    assert done.result.by_words.labels.shape == (2, 3)


def test_a_corpus_directory_is_served_filled_and_found_again(tools, tmp_path):
    store = CorpusStore.open(tmp_path, create=True)
    engine = build_engine("vector", 3, VectorSettings(tmp_path))
    vectors = tools.clustered(300)
    engine.apply(tools.search(1, vectors[:2], 3))
    assert (tools.terminals(tools.drain(engine))[1].result.labels == -1).all()

    store.set_embedder(EmbedderStamp("fake", tools.dims, "float32"))
    chunks = [TextChunk(i, "title", f"text {i}") for i in range(len(vectors))]
    store.documents.put_document(Document("d", "title", "text", "d.txt"), chunks)
    chunk_ids = [chunk.chunk_id for chunk in store.documents.pending_chunks(1000)]
    engine.apply(tools.ingest(2, chunk_ids[:200], vectors[:200]))
    engine.apply(tools.ingest(3, chunk_ids[200:], vectors[200:]))
    ended = tools.terminals(tools.drain(engine))
    assert ended[3].result.revision == store.revision == 1

    refresh_index(tmp_path)
    assert (tmp_path / "index" / "ivf-1.faiss").exists()
    for serving in (engine, build_engine("vector", 4, VectorSettings(tmp_path))):
        serving.apply(tools.search(4, vectors, 1))
        frames = []
        while serving.has_work:
            frames.append(serving.step(0.0, float("inf")))
        [hits] = [event.result for frame in frames for event in frame.events]
        assert (hits.distances == 0).all()
        assert hits.revision == 1
    assert frames[-1].epoch == 4


def test_a_closed_engine_has_let_go_of_its_corpus(tools, tmp_path):
    CorpusStore.open(tmp_path, create=True).close()
    engine = build_engine("vector", 1, VectorSettings(tmp_path))
    assert list(tmp_path.glob("*-wal"))
    engine.close()
    assert not list(tmp_path.glob("*-wal"))  # the last connection takes it away


def test_a_lane_takes_over_the_clusters_of_an_indexer(tools, tmp_path):
    store = CorpusStore.open(tmp_path, create=True)
    engine = build_engine("vector", 1, VectorSettings(tmp_path))
    store.set_embedder(EmbedderStamp("fake", tools.dims, "float32"))
    vectors = tools.clustered(300)
    chunks = [TextChunk(i, "title", f"text {i}") for i in range(len(vectors))]
    store.documents.put_document(Document("d", "title", "text", "d.txt"), chunks)
    waiting = store.documents.pending_chunks(1000)
    store.store_vectors([chunk.chunk_id for chunk in waiting], vectors)
    refresh_index(tmp_path)

    def lists_probed(task_id):
        engine.apply(tools.search(task_id, vectors[:1], 1))
        return tools.terminals(tools.drain(engine))[task_id].result.counts.lists_probed

    task_ids = itertools.count(1)
    assert lists_probed(next(task_ids)) in (1, 4)  # the new clusters may be there already
    eventually(lambda: lists_probed(next(task_ids)) == 4)
    queries = tools.clustered(40, seed=8)
    engine.apply(tools.search(1_000_000, queries, 3, 1))
    of_lane = tools.terminals(tools.drain(engine))[1_000_000].result.labels
    of_file = one_shot(open_index(tmp_path, store).index, queries, 3, 1)[1]
    np.testing.assert_array_equal(of_lane, of_file)


def test_a_lane_that_finds_a_long_tail_saves_it_beside_its_searches(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(live_index, "TAIL_SHARE", 0.0)
    monkeypatch.setattr(live_index, "TAIL_MIN", 20)
    vectors = tools.clustered(330)
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(EmbedderStamp("fake", tools.dims, "float32"))
        for name, mine in (("old", vectors[:300]), ("new", vectors[300:])):
            chunks = [TextChunk(i, "title", f"{name} {i}") for i in range(len(mine))]
            store.documents.put_document(Document(name, "title", "text", f"{name}.txt"), chunks)
            ids = [chunk.chunk_id for chunk in store.documents.pending_chunks(1000)]
            store.store_vectors(ids, mine)
            if name == "old":
                refresh_index(tmp_path)
    engine = build_engine("vector", 1, VectorSettings(tmp_path))
    eventually(lambda: read_manifest(tmp_path).revision == 2)
    engine.apply(tools.search(1, vectors[310:311], 1))
    hits = tools.terminals(tools.drain(engine))[1].result
    assert (hits.labels[0, 0], hits.revision) == (311, 2)
    engine.close()


def test_a_part_is_searched_as_was_chosen_for_the_whole(tools, tmp_path, monkeypatch):
    monkeypatch.setattr(index_kind, "EXHAUSTIVE_BELOW", 100)
    vectors, part = tools.clustered(300), Part(0, 2)
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(EmbedderStamp("fake", tools.dims, "float32"))
        chunks = [TextChunk(i, "title", f"text {i}") for i in range(len(vectors))]
        store.documents.put_document(Document("d", "title", "text", "d.txt"), chunks)
        ids = [chunk.chunk_id for chunk in store.documents.pending_chunks(1000)]
        store.store_vectors(ids, vectors)
    for mode, kind in ((SearchMode.EXACT, "panorama"), (SearchMode.AUTO, "pq")):
        refresh_index(tmp_path, mode)
        build_engine("vector", 1, VectorSettings(tmp_path, part=part)).close()
        manifest = read_manifest(part.directory(tmp_path))
        assert (manifest.mode, manifest.kind, manifest.count) == (mode.value, kind, 150)


@pytest.mark.parametrize("speculates", [False, True])
def test_partial_hits_come_with_a_probability_where_prompts_are_guessed(
    tools, tmp_path, speculates
):
    vectors = tools.clustered(1500)
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(EmbedderStamp("fake", tools.dims, "float32"))
        chunks = [TextChunk(i, "title", f"text {i}") for i in range(len(vectors))]
        store.documents.put_document(Document("d", "title", "text", "d.txt"), chunks)
        store.store_vectors(
            [chunk.chunk_id for chunk in store.documents.pending_chunks(2000)], vectors
        )
    settings = VectorSettings(tmp_path, lists_per_step=1, speculates=speculates)
    engine = build_engine("vector", 1, settings)
    told = []
    for number, query in enumerate(vectors[:40, None]):
        engine.apply(tools.search(number, query, 1, report_every=1))
        told += [event for event in tools.drain(engine) if isinstance(event, Progress)]
    assert told
    assert any(event.probability > 0 for event in told) == speculates
