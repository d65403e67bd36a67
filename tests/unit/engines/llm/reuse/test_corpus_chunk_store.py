"""Chunk KV beside a corpus: what is deleted there is gone here, before anyone uses it."""

import errno
from pathlib import Path

import numpy as np
import pytest

from heddle.core.errors import ConfigError, StorageError, Unreachable
from heddle.core.kv_reuse import PrimedWith
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.engines.llm.reuse.corpus_chunk_store import CorpusChunkStore
from heddle.engines.llm.reuse.deletion_log import REST_S
from tests.helpers.fake_ports import ManualClock
from tests.unit.kv.test_chunk_store import Clock, entry_of, files_in, keys_of, settings
from tests.unit.kv.test_chunk_store import opened as without_corpus


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


class FailingLog:
    """A deletion log that raises while it has an `error`, after `blocks_s`."""

    def __init__(self, clock):
        self.clock, self.error, self.blocks_s = clock, None, 0.0
        self.asked = 0
        self.gone = []

    def _answer(self, answer):
        self.asked += 1
        if self.error is not None:
            self.clock.time_s += self.blocks_s
            raise self.error
        return answer

    @property
    def revision(self):
        return self._answer(len(self.gone))

    def deleted(self, after_revision):
        return self._answer(np.array(self.gone[max(0, after_revision) :], np.int64))

    def has_deleted(self, chunk_ids):
        return self._answer(not set(self.gone).isdisjoint(chunk_ids))

    def close(self):
        pass


@pytest.fixture
def failing():
    """A store with one chunk's KV, beside a log that can fail."""
    clock = ManualClock()
    deletions = FailingLog(clock)
    store = CorpusChunkStore(settings(None), "m", clock, deletions)
    assert store.put(entry_of(keys_of(7).canonical_record(0, 2)), clock.now_s())
    assert look(store, 7, clock.now_s()) is not None
    clock.time_s += 1
    yield store, deletions, clock
    store.close()


def raised(store, clock):
    """Return what a lookup raises, the same as storing does."""
    with pytest.raises(StorageError) as looked:
        look(store, 7, clock.now_s())
    with pytest.raises(StorageError) as put:
        store.put(entry_of(keys_of(8).canonical_record(0, 2)), clock.now_s())
    assert (put.type, str(put.value)) == (looked.type, str(looked.value))
    return looked.value


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Unreachable("the server is away"), Unreachable),
        (StorageError("the disk refuses"), StorageError),
        (ConfigError("the password is another"), StorageError),
    ],
)
def test_a_corpus_that_can_not_be_read_is_asked_again_after_a_rest(failing, caplog, error, kind):
    store, deletions, clock = failing
    deletions.error, before = error, deletions.asked
    with caplog.at_level("INFO", logger="heddle"):
        for _ in range(3):
            found = raised(store, clock)
            assert (type(found), str(found)) == (kind, str(error))
        assert deletions.asked == before + 1
        clock.time_s += REST_S
        raised(store, clock)
        assert deletions.asked == before + 2
        deletions.error, deletions.gone = None, [9]
        raised(store, clock)
        clock.time_s += REST_S
        assert look(store, 7, clock.now_s()) is not None
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"], "once a spell"


def test_the_rest_is_long_where_the_failure_was(failing):
    store, deletions, clock = failing
    deletions.error, deletions.blocks_s = Unreachable("no answer"), 4.0
    raised(store, clock)
    before = deletions.asked
    clock.time_s += 35.0
    raised(store, clock)
    assert deletions.asked == before
    clock.time_s += 1.0
    raised(store, clock)
    assert deletions.asked == before + 1


def test_what_was_deleted_while_the_corpus_was_away_is_not_found_when_it_is_back(failing):
    store, deletions, clock = failing
    deletions.error = Unreachable("the server is away")
    raised(store, clock)
    deletions.error, deletions.gone = None, [7]
    raised(store, clock)
    clock.time_s += REST_S
    assert look(store, 7, clock.now_s()) is None


def unknown_file(folder):
    """Put a file that no store has written into a store's folder."""
    [model] = folder.iterdir()
    (model / f"{bytes(32).hex()}.kv.safetensors").touch()


def test_a_file_that_the_disk_does_not_tell_of_keeps_nothing_from_being_forgotten(
    corpus, opened, tmp_path, monkeypatch
):
    chunk = add(corpus, "gone")
    store, stat = opened(), Path.stat
    store.put(entry_of(keys_of(chunk).canonical_record(0, 2)), 0.0)
    unknown_file(tmp_path / "kv")

    def failing(path, **options):
        if path.name.startswith(bytes(32).hex()):
            raise OSError(errno.EIO, "Input/output error")
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", failing)
    corpus.documents.delete_document("gone")
    assert look(store, chunk, 1.0) is None


def test_what_an_error_has_left_is_forgotten_the_next_time(corpus, opened, tmp_path, monkeypatch):
    chunk = add(corpus, "gone")
    store = opened()
    store.put(entry_of(keys_of(chunk).canonical_record(0, 2)), 0.0)
    corpus.documents.delete_document("gone")
    with monkeypatch.context() as patched:
        patched.setattr(store, "refresh", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            look(store, chunk, 1.0)
    assert look(store, chunk, 2.0) is None


@pytest.mark.parametrize("asked", ["by a later deletion", "by priming"])
def test_kv_of_a_deleted_chunk_that_another_process_names_late_is_removed_and_not_used(
    corpus, opened, tmp_path, asked
):
    gone, kept, other = (add(corpus, name) for name in ("gone", "kept", "other"))
    server = opened()
    corpus.documents.delete_document("gone")
    assert look(server, kept, 1.0) is None
    record = keys_of(gone, kept).primed_record(1, 2)
    with without_corpus(tmp_path / "kv") as priming:  # it has asked before the deletion
        priming.put(entry_of(record), 0.0)
    if asked == "by a later deletion":
        corpus.documents.delete_document("other")
    else:
        assert not server.keeps(record)
    probes = keys_of(other, kept).probes(1, primed=PrimedWith.PRECEDING)
    assert server.lookup(probes, 2.0) is None
    assert files_in(tmp_path / "kv") == []


def test_kv_of_a_chunk_that_is_still_there_is_taken_in_after_deletions(corpus, opened, tmp_path):
    _, kept, _ = (add(corpus, name) for name in ("gone", "kept", "later"))
    server = opened()
    corpus.documents.delete_document("gone")
    look(server, kept, 1.0)
    with without_corpus(tmp_path / "kv") as other_process:
        other_process.put(entry_of(keys_of(kept).canonical_record(0, 2)), 0.0)
    corpus.documents.delete_document("later")
    assert look(server, kept, 2.0) is not None
