"""Files and vector stores on the disk: whose they are, in pages, and what goes with what."""

from pathlib import Path

import numpy as np
import pytest

from heddle.core.errors import Busy, Cancelled, InputError
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_stores import attached_files, uploads, vector_stores
from heddle.corpus.vector_stores.document_names import StoredAt, document_id, place_of
from heddle.corpus.vector_stores.paging import PageRequest
from heddle.corpus.vector_stores.records import FailureKind, FileCounts, FileState
from tests.unit.corpus.corpora import STAMP, embed, put, texts_searchable

NOW_S = 1_700_000_000


def sent(store: CorpusStore, name: str = "a.md", tenant: str = "a") -> str:
    return store.uploads.add(tenant, name, "assistants", name.encode(), now_s=NOW_S).id


def made(store: CorpusStore, name: str = "notes", tenant: str = "a") -> str:
    return store.vector_stores.add(tenant, name, {"by": "ann"}, now_s=NOW_S).id


def test_what_a_tenant_has_another_neither_sees_nor_deletes(store: CorpusStore):
    file_id, store_id = sent(store), made(store)
    files, stores = store.attached_files, store.vector_stores
    batch = files.attach("a", store_id, {file_id: {"year": 1}}, now_s=NOW_S)
    for tenant in ("", "b"):
        assert store.uploads.find(tenant, file_id) is None
        assert store.uploads.content(tenant, file_id) is None
        assert not store.uploads.delete(tenant, file_id)
        assert store.uploads.listed(tenant, PageRequest()).rows == ()
        assert stores.find(tenant, store_id) is None
        assert not stores.delete(tenant, store_id)
        assert stores.change(tenant, store_id, name="x", metadata=None, now_s=NOW_S) is None
        assert files.find(tenant, store_id, file_id) is None
        assert files.batch(tenant, store_id, batch.id) is None
        assert files.cancel(tenant, store_id, batch.id) is None
        assert not files.detach(tenant, store_id, file_id)
        with pytest.raises(InputError, match="file_ids: no file"):
            files.attach(tenant, made(store, tenant=tenant), {file_id: {}}, now_s=NOW_S)
    assert store.uploads.content("a", file_id) == b"a.md"
    assert stores.find("a", store_id).counts == FileCounts(in_progress=1)


def test_no_file_comes_into_a_store_that_is_gone_or_anothers(store: CorpusStore):
    file_id, gone, anothers = sent(store), made(store), made(store, tenant="b")
    assert store.vector_stores.delete("a", gone)  # by another client, at the same moment
    for store_id in (gone, anothers):
        with pytest.raises(InputError, match="vector_store_id: no vector store"):
            store.attached_files.attach("a", store_id, {file_id: {}}, now_s=NOW_S)
    assert store.file_queue.begin() is None


def test_a_list_comes_in_pages_either_way(store: CorpusStore):
    ids = [sent(store, f"{number}.md") for number in range(5)]
    newest = ids[::-1]

    def page(**wanted: object) -> tuple[list[str], bool]:
        found = store.uploads.listed("a", PageRequest(**wanted))
        return [row.id for row in found.rows], found.has_more

    assert page(limit=2) == (newest[:2], True)
    assert page(limit=2, after=newest[1]) == (newest[2:4], True)
    assert page(limit=2, after=newest[3]) == (newest[4:], False)
    assert page(before=newest[2]) == (newest[:2], False)
    assert page(limit=3, after=ids[1], is_ascending=True) == (ids[2:], False)
    assert page(before=ids[1], is_ascending=True) == (ids[:1], False)
    with pytest.raises(InputError, match="after: 'file-none' is not in this list"):
        page(after="file-none")


def test_a_batch_is_put_in_whole_or_not_at_all(store: CorpusStore):
    files, store_id = store.attached_files, made(store)
    first, second = sent(store, "1.md"), sent(store, "2.md")
    with pytest.raises(InputError, match="file_ids"):
        files.attach("a", store_id, {first: {}, "file-none": {}}, now_s=NOW_S)
    assert files.all_of("a", store_id) == ()
    batch = files.attach("a", store_id, {first: {"n": 1}, second: {}}, now_s=NOW_S)
    queue = store.file_queue
    begun = queue.begin()
    assert (begun.file_id, begun.name, begun.attempts) == (first, "1.md", 1)
    assert queue.complete(begun, 1, 10)
    assert files.batch("a", store_id, batch.id).counts == FileCounts(in_progress=1, completed=1)
    stopped = files.cancel("a", store_id, batch.id)
    assert (stopped.is_cancelled, stopped.counts) == (True, FileCounts(completed=1, cancelled=1))
    assert queue.begin() is None
    [done] = files.listed("a", store_id, PageRequest(), state=FileState.COMPLETED).rows
    assert (done.file_id, done.attributes, done.bytes) == (first, {"n": 1}, 10)
    assert len(files.listed("a", store_id, PageRequest(), batch_id=batch.id).rows) == 2
    files.detach("a", store_id, first)
    assert files.batch("a", store_id, batch.id).counts == FileCounts(cancelled=1)


def test_a_file_put_in_again_while_it_is_indexed_is_indexed_again(store: CorpusStore):
    files, store_id, file_id = store.attached_files, made(store), sent(store)
    files.attach("a", store_id, {file_id: {"n": 1}}, now_s=NOW_S)
    begun = store.file_queue.begin()
    files.attach("a", store_id, {file_id: {"n": 2}}, now_s=NOW_S)
    assert not store.file_queue.complete(begun, 1, 10)
    again = store.file_queue.begin()
    assert again.attributes == {"n": 2}
    assert store.file_queue.complete(again, 1, 10)


@pytest.mark.parametrize("ends_as", ["unbegun", "unwanted", "failed"])
def test_a_complete_file_stays_when_the_batch_that_puts_it_in_again_is_cancelled(
    store: CorpusStore, ends_as: str
):
    store.set_embedder(STAMP)
    files, queue, store_id, file_id = (
        store.attached_files,
        store.file_queue,
        made(store, tenant=""),
        sent(store, tenant=""),
    )
    files.attach("", store_id, {file_id: {}}, now_s=NOW_S)
    first = queue.begin()
    assert first is not None
    put(store, document_id(store_id, file_id, 0), "what it says")
    embed(store)
    queue.complete(first, 1, 10)
    batch = files.attach("", store_id, {file_id: {}}, now_s=NOW_S)
    begun = None if ends_as == "unbegun" else queue.begin()
    stopped = files.cancel("", store_id, batch.id)
    if begun is not None and ends_as == "unwanted":
        assert not queue.complete(begun, 0, 0)
    elif begun is not None:
        queue.fail(begun, FailureKind.SERVER_ERROR, "the embedder is away")
    assert stopped is not None
    assert stopped.counts == FileCounts(completed=1)
    found = files.find("", store_id, file_id)
    assert found is not None
    assert (found.state, found.bytes) == (FileState.COMPLETED, 10)
    assert texts_searchable(store) == ["what it says"]


def test_a_file_that_any_server_has_deleted_gets_no_more_documents(
    store: CorpusStore, tmp_path: Path
):
    """Its text has a vector already, so that it would be found at once."""
    store.set_embedder(EmbedderStamp("tiny", 1, "float32"))
    chunks = (TextChunk(0, "Known", "It is so."),)
    store.documents.put_document(Document("known.md", "Known", "It is so.", "", tenant="a"), chunks)
    ids = [chunk.chunk_id for chunk in store.documents.pending_chunks(9)]
    store.store_vectors(ids, np.ones((len(ids), 1), np.float32))
    store_id, file_id = made(store), sent(store)
    store.attached_files.attach("a", store_id, {file_id: {}}, now_s=NOW_S)
    begun = store.file_queue.begin()
    assert begun is not None
    late = Document(document_id(store_id, file_id, 0), "Known", "It is so.", "", tenant="a")
    store.documents.put_documents([(late, chunks)], file=begun)
    assert store.stats().documents == 2
    with CorpusStore.open(store.place) as other:
        assert other.uploads.delete("a", file_id)
    with pytest.raises(Cancelled, match=r"a\.md is no longer wanted"):
        store.documents.put_documents([(late, chunks)], file=begun)
    assert store.stats().documents == 1


def test_everything_is_bounded(store: CorpusStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uploads, "UPLOADS_MAX", 2)
    monkeypatch.setattr(vector_stores, "STORES_MAX", 2)
    first, second = sent(store), sent(store)
    with pytest.raises(InputError, match="delete some first"):
        sent(store)
    here, there = made(store), made(store)
    with pytest.raises(InputError, match="delete some first"):
        made(store)
    monkeypatch.setattr(attached_files, "FILES_MAX", 1)
    with pytest.raises(InputError, match="at most 1 files"):
        store.attached_files.attach("a", here, {first: {}, second: {}}, now_s=NOW_S)
    monkeypatch.setattr(attached_files, "WAITING_MAX", 1)
    store.attached_files.attach("a", here, {first: {}}, now_s=NOW_S)
    with pytest.raises(Busy, match="1 files wait"):
        store.attached_files.attach("a", there, {second: {}}, now_s=NOW_S)


def test_a_documents_id_says_where_it_belongs():
    assert place_of(document_id("vs_1", "file-2", 3)) == StoredAt("vs_1", "file-2")
    assert place_of("/home/notes.md") is None


def test_a_files_text_comes_in_its_order_and_once_it_is_searchable(store: CorpusStore):
    for number in range(11):
        put(store, document_id("vs_1", "file-2", number), f"first of {number}", f"more of {number}")
    put(store, document_id("vs_1", "file-21", 0), "of another file")
    assert store.attached_files.chunk_ids("", "vs_1", "file-2") == ()
    store.set_embedder(STAMP)
    embed(store)
    ids = store.attached_files.chunk_ids("", "vs_1", "file-2")
    read = [passage.text for passage in store.passages(ids)]
    assert read == [f"{part} of {number}" for number in range(11) for part in ("first", "more")]
    assert store.attached_files.chunk_ids("a", "vs_1", "file-2") == ()
