"""Single documents come and go, with their chunks' KV, while the corpus is served."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from heddle.app.indexing.documents import (
    BATCH_ROWS,
    chunk_kv_goes_too,
    corpus_of,
    delete_document,
    delete_documents,
    document_of,
    put_document,
)
from heddle.app.priming.chunk_kv_disk import chunk_kv_directory
from heddle.cli.main import main
from heddle.core.errors import ConfigError, EngineError, InputError, StorageError
from heddle.corpus.ingestion import ingest_documents
from heddle.corpus.records import EmbedderStamp, PutOutcome
from heddle.corpus.store import CorpusStore
from heddle.kv.disk.chunk_header import SUFFIX


class FakeLanes:
    """Embeds what is submitted at once, or fails."""

    def __init__(self, store: CorpusStore) -> None:
        self.store = store
        self.fails = False
        self.batches: list[tuple[str, ...]] = []

    def submit(self, workflow, inputs, *, priority, deadline_s):
        if self.fails:
            raise EngineError("lane lost", engine="embedding", request_ids=())
        ids, texts = inputs["chunk_ids"], inputs["texts"]
        self.batches.append(texts)
        self.store.store_vectors(ids, np.ones((len(ids), 4), np.float32) / 2)
        receipt = SimpleNamespace(texts_truncated=1, texts_windowed=0)
        return SimpleNamespace(result=lambda: SimpleNamespace(receipt=receipt), is_done=True)


@pytest.fixture
def store(tmp_path: Path):
    with CorpusStore.open(tmp_path, create=True) as opened:
        opened.set_embedder(EmbedderStamp("fake", 4, "float32"))
        yield opened


def document(text: str, document_id: str = "pier", tenant: str = "", **fields):
    given = {"title": "", "metadata": None, "collection": "", **fields}
    return document_of(document_id, text, tenant=tenant, **given)


def texts_of(store: CorpusStore) -> list[str]:
    ids = [i for batch in store.vectors() for i in batch.chunk_ids.tolist()]
    return [passage.text for passage in store.passages(ids)]


def test_a_document_is_put_replaced_and_deleted(store):
    lanes = FakeLanes(store)
    added = put_document(lanes, store, document("Ferries leave at noon.", title=" The\npier "))
    assert (added.outcome, added.embedded.chunks) == (PutOutcome.ADDED, 1)
    assert lanes.batches == [("The pier\nFerries leave at noon.",)]
    assert added.revision == store.revision
    changed = put_document(lanes, store, document("Ferries leave at one."))
    assert changed.outcome is PutOutcome.CHANGED
    assert changed.revision > added.revision
    assert texts_of(store) == ["Ferries leave at one."]
    assert delete_document(store, "pier", tenant="")
    assert texts_of(store) == []
    assert not delete_document(store, "pier", tenant="")
    assert store.revision == changed.revision + 1


def test_what_is_the_same_is_not_embedded_again(store):
    lanes = FakeLanes(store)
    put_document(lanes, store, document("Ferries.", metadata={"area": "sea"}))
    again = put_document(lanes, store, document("Ferries.", metadata={"area": "sea"}))
    assert (again.outcome, again.embedded.chunks) == (PutOutcome.UNCHANGED, 0)
    other = put_document(lanes, store, document("Ferries.", metadata={"area": "port"}))
    assert (other.outcome, other.embedded.chunks) == (PutOutcome.DESCRIBED, 0)
    assert other.revision > again.revision  # filters let other documents pass
    assert len(lanes.batches) == 1


def test_in_another_collection_it_is_another_version(store):
    """Its chunks' KV was computed with what stands in the former one, and others' with its own."""
    lanes = FakeLanes(store)
    put_document(lanes, store, document("Ferries.", collection="timetables"))
    [old] = [i for batch in store.vectors() for i in batch.chunk_ids.tolist()]
    moved = put_document(lanes, store, document("Ferries.", collection="letters"))
    assert (moved.outcome, moved.embedded.chunks) == (PutOutcome.CHANGED, 1)
    assert store.deleted(0).tolist() == [old]
    [new] = [i for batch in store.vectors() for i in batch.chunk_ids.tolist()]
    assert [passage.collection for passage in store.passages([new])] == ["letters"]
    again = put_document(lanes, store, document("Ferries.", collection="letters"))
    assert again.outcome is PutOutcome.UNCHANGED


def test_a_move_to_another_collection_that_waits_for_vectors_can_be_taken_back(store):
    lanes = FakeLanes(store)
    put_document(lanes, store, document("Ferries."))
    lanes.fails = True
    with pytest.raises(EngineError):
        put_document(lanes, store, document("Ferries.", collection="letters"))
    back = put_document(lanes, store, document("Ferries."))
    assert (back.outcome, back.embedded.chunks) == (PutOutcome.CHANGED, 0)
    assert store.deleted(0).tolist() == []


def test_a_document_is_its_tenants(store):
    lanes = FakeLanes(store)
    put_document(lanes, store, document("Everybody's."))
    put_document(lanes, store, document("Bob's.", tenant="bob"))
    assert not delete_document(store, "pier", tenant="eve")
    assert delete_document(store, "pier", tenant="bob")
    assert texts_of(store) == ["Everybody's."]


def test_an_upsert_that_failed_goes_on_where_it_was(store):
    lanes = FakeLanes(store)
    put_document(lanes, store, document("Noon."))
    lanes.fails = True
    with pytest.raises(EngineError):
        put_document(lanes, store, document("One."))
    assert texts_of(store) == ["Noon."]  # searched as it was
    lanes.fails = False
    assert put_document(lanes, store, document("One.")).embedded.chunks == 1
    assert texts_of(store) == ["One."]


def test_others_that_wait_for_vectors_are_left_to_whoever_put_them(store):
    lanes = FakeLanes(store)
    lanes.fails = True
    with pytest.raises(EngineError):
        put_document(lanes, store, document("Waits.", "other"))
    lanes.fails = False
    put_document(lanes, store, document("Ferries."))
    assert lanes.batches == [("pier\nFerries.",)]


def test_an_indexing_run_keeps_what_no_file_brought_and_files_take_their_documents_back(
    store, tmp_path
):
    lanes, files = FakeLanes(store), tmp_path / "files"
    files.mkdir()
    put_document(lanes, store, document("Ferries."))
    lines = files / "harbour.jsonl"
    lines.write_text('{"id": "dock", "text": "Ships."}\n')
    ingest_documents(store, [files], prune=True)
    put_document(lanes, store, document("Ships and boats.", "dock"))
    assert sorted(texts_of(store)) == ["Ferries.", "Ships and boats."]
    lines.write_text('{"id": "dock", "text": "Ships again."}\n')
    report = ingest_documents(store, [files], prune=True)
    assert (report.changed, report.removed, report.failures) == (1, 0, ())
    waiting = store.documents.pending_chunks_of("dock")
    assert [chunk.text for chunk in waiting] == ["Ships again."]
    assert "Ferries." in texts_of(store)


def test_a_long_document_is_embedded_in_batches(store):
    lanes = FakeLanes(store)
    text = " ".join(f"The ferry number {number} leaves at noon." for number in range(9000))
    change = put_document(lanes, store, document(text))
    assert change.embedded.chunks == sum(map(len, lanes.batches)) > BATCH_ROWS
    assert max(map(len, lanes.batches)) == BATCH_ROWS
    assert change.embedded.truncated == len(lanes.batches)


def test_the_kv_of_replaced_and_deleted_chunks_goes(store, tmp_path, monkeypatch):
    gone = []
    monkeypatch.setattr(
        "heddle.app.indexing.documents.forget_files", lambda folder, ids: gone.append((folder, ids))
    )
    lanes = FakeLanes(store)
    put_document(lanes, store, document("Noon."))
    [first] = [i for batch in store.vectors() for i in batch.chunk_ids.tolist()]
    put_document(lanes, store, document("One."))
    [second] = [i for batch in store.vectors() for i in batch.chunk_ids.tolist()]
    delete_document(store, "pier", tenant="")
    folder = chunk_kv_directory(tmp_path)
    assert gone == [(folder, []), (folder, [first]), (folder, [second])]


def unreadable_kv(corpus: Path) -> Path:
    """Leave a KV file in a corpus; as its sources are unknown, it goes with any deletion."""
    file = chunk_kv_directory(corpus) / "reader" / f"1{SUFFIX}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"junk")
    return file


def test_what_cannot_be_read_of_deleted_kv_is_removed(store, tmp_path):
    put_document(FakeLanes(store), store, document("Noon."))
    damaged = unreadable_kv(tmp_path)
    assert delete_documents(tmp_path, ["pier", "quay"], tenant="") == ("quay",)
    assert not damaged.exists()


def delete_one(store: CorpusStore) -> bool:
    return delete_document(store, "pier", tenant="")


def delete_by_command(store: CorpusStore) -> bool:
    return delete_documents(store.place, ["pier"], tenant="") == ()


@pytest.mark.parametrize("delete", [delete_one, delete_by_command])
def test_a_deletion_that_is_asked_for_again_removes_the_kv_that_the_disk_had_kept(
    store, tmp_path, monkeypatch, delete
):
    put_document(FakeLanes(store), store, document("Noon."))
    left = unreadable_kv(tmp_path)

    def refuse(path, missing_ok=False):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        with pytest.raises(StorageError, match="can't be removed"):
            delete(store)
    assert left.exists()
    assert not delete(store), "there is no such document any more"
    assert not left.exists()


def test_kv_of_what_was_deleted_goes_also_where_an_error_follows(store, tmp_path):
    put_document(FakeLanes(store), store, document("Noon."))
    left = unreadable_kv(tmp_path)

    def delete_and_fail():
        with chunk_kv_goes_too(store):
            store.documents.delete_document("pier")
            raise EngineError("lane lost", engine="embedding", request_ids=())

    with pytest.raises(EngineError, match="lane lost"):
        delete_and_fail()
    assert not left.exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": " \n"}, "has none"),
        ({"text": 7}, "text must be a string"),
        ({"text": "x", "document_id": ""}, "id is empty"),
        ({"text": "x", "document_id": "a\x00b"}, "id must have no control"),
        ({"text": "x", "tenant": "a\x00b"}, "tenant must have no control"),
        ({"text": "x", "metadata": {"a": object()}}, "metadata"),
    ],
)
def test_what_cannot_be_put_is_refused_and_nothing_is_changed(store, fields, message):
    with pytest.raises(InputError, match=message):
        put_document(FakeLanes(store), store, document(**fields))
    assert store.stats().documents == store.revision == 0


def test_a_server_without_a_corpus_says_so():
    with pytest.raises(ConfigError, match="give it an index"):
        corpus_of(None)


def test_the_command_deletes_by_id_and_says_what_was_not_there(store, tmp_path, capsys):
    put_document(FakeLanes(store), store, document("Noon.", tenant="bob"))
    delete = ["index", "--into", str(tmp_path), "--delete", "pier"]
    assert main(delete) == 1
    assert "no document 'pier'" in capsys.readouterr().err
    assert main([*delete, "--tenant", "bob"]) == 0
    assert "documents deleted: 1" in capsys.readouterr().out
    assert texts_of(store) == []
    assert main([*delete, "some.md"]) == 2
    assert main(["index", "--into", str(tmp_path)]) == 2
