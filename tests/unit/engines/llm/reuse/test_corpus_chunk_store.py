"""Chunk KV beside a corpus: what is deleted there is gone here, before anyone uses it."""

import numpy as np
import pytest

from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.engines.llm.reuse.corpus_chunk_store import CorpusChunkStore
from tests.unit.kv.test_chunk_store import Clock, entry_of, files_in, keys_of, settings


@pytest.fixture
def corpus(tmp_path):
    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        store.set_embedder(EmbedderStamp("m", 2, "float32"))
        yield store


def add(corpus, name, text="Some text."):
    """Store a document of one chunk; return the chunk's id."""
    document = Document(name, name, f"{text} {name}", f"/{name}")
    corpus.documents.put_document(document, chunk_document(document, Chunking()))
    [chunk] = corpus.documents.pending_chunks(9)
    corpus.store_vectors([chunk.chunk_id], np.ones((1, 2), np.float32))
    return chunk.chunk_id


@pytest.fixture
def opened(corpus, tmp_path):
    stores = []

    def open_store():
        log = CorpusStore.open(corpus.place)
        stores.append(CorpusChunkStore(settings(tmp_path / "kv"), "m", Clock(), log))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def look(store, chunk, now_s):
    return store.lookup(keys_of(chunk).probes(0), now_s)


def test_a_deleted_chunk_is_forgotten_at_the_next_prompt(corpus, opened, tmp_path):
    gone, kept = add(corpus, "gone"), add(corpus, "kept")
    store = opened()
    entries = [
        entry_of(keys_of(gone).canonical_record(0, 2)),
        entry_of(keys_of(kept).canonical_record(0, 2)),
        entry_of(keys_of(gone, kept).primed_record(1, 2)),
    ]
    for entry in entries:
        assert store.put(entry, 0.0)
    store.flush()
    assert look(store, gone, 1.0) is not None
    corpus.documents.delete_document("gone")
    assert look(store, gone, 1.0) is not None, "one prompt's lookups see one state"
    assert look(store, gone, 2.0) is None
    assert look(store, kept, 2.0) is not None
    assert [path.name[:64] for path in files_in(tmp_path / "kv")] == [entries[1].record.key.hex()]


def test_what_was_deleted_while_no_store_was_open_is_forgotten_when_one_is(
    corpus, opened, tmp_path
):
    chunk = add(corpus, "gone")
    store = opened()
    store.put(entry_of(keys_of(chunk).canonical_record(0, 2)), 0.0)
    store.close()
    corpus.documents.delete_document("gone")
    assert len(files_in(tmp_path / "kv")) == 1
    assert opened().stats().entries == 0
    assert files_in(tmp_path / "kv") == []


def test_a_changed_document_s_old_chunks_are_forgotten(corpus, opened):
    old = add(corpus, "page")
    store = opened()
    store.put(entry_of(keys_of(old).canonical_record(0, 2)), 0.0)
    new = add(corpus, "page", "Another text.")
    store.put(entry_of(keys_of(new).canonical_record(0, 2)), 0.0)
    assert look(store, old, 1.0) is None
    assert look(store, new, 1.0) is not None


def test_what_was_deleted_while_it_was_computed_is_not_stored(corpus, opened):
    chunk = add(corpus, "gone")
    store, told = opened(), []
    corpus.documents.delete_document("gone")
    assert not store.put(entry_of(keys_of(chunk).canonical_record(0, 2)), 0.0, told.append)
    assert not store.put(entry_of(keys_of(chunk, 999).exact_record(1, 2)), 0.0)
    assert told == [None]
    assert store.stats().entries == 0
    assert store.put(entry_of(keys_of(999).canonical_record(0, 2)), 0.0), "no chunk of a corpus"
