"""Files are taken into their stores: read, failed, tried again, given up, interrupted."""

import gzip
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from heddle.core.errors import Cancelled, EngineError, StorageError
from heddle.corpus.chunking import Chunking
from heddle.corpus.document import Document
from heddle.corpus.parsing.guarded_parser import GuardedParser
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_stores.records import AttachedFile, FileState
from heddle.server.changes.change_threads import ChangeThreads
from heddle.server.stores import file_indexing
from heddle.server.stores.desk import Desk
from heddle.server.stores.doors import add_stores
from heddle.server.stores.file_indexing import ATTEMPTS_MAX, FileIndexing
from tests.helpers.server_state import eventually

DIMS = 4
NOW_S = 1_700_000_000


class FakeServer:
    """Embeds at once, fails, or waits until the caller gives up."""

    def __init__(self, store: CorpusStore) -> None:
        self.store = store
        self.failures = 0
        self.holds = False
        self.is_held = threading.Event()

    def chunking(self) -> Chunking:
        return Chunking()

    def submit(self, workflow: object, inputs: dict, **how: object) -> SimpleNamespace:
        if self.failures:
            self.failures -= 1
            raise EngineError("lane lost", engine="embedding", request_ids=())
        ids = inputs["chunk_ids"]
        given_up = threading.Event()

        def result() -> SimpleNamespace:
            if self.holds:
                self.is_held.set()
                given_up.wait(20)
                raise Cancelled("cancelled")
            self.store.store_vectors(ids, np.ones((len(ids), DIMS), np.float32) / 2)
            return SimpleNamespace(receipt=SimpleNamespace(texts_truncated=0, texts_windowed=0))

        return SimpleNamespace(result=result, cancel_soon=given_up.set, is_done=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CorpusStore]:
    with CorpusStore.open(tmp_path, create=True) as opened:
        opened.set_embedder(EmbedderStamp("fake", DIMS, "float32"))
        yield opened


@pytest.fixture
def server(store: CorpusStore, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    monkeypatch.setattr(file_indexing, "LOOK_S", 0.01)
    return FakeServer(store)


def attached(
    store: CorpusStore, content: bytes, name: str = "a.md", tenant: str = "", **attributes: object
) -> Callable[[], AttachedFile]:
    """Put a file into a store of its own, and return what gives its state."""
    made = store.vector_stores.add(tenant, "", {}, now_s=NOW_S)
    upload = store.uploads.add(tenant, name, "assistants", content, now_s=NOW_S)
    store.attached_files.attach(tenant, made.id, {upload.id: attributes}, now_s=NOW_S)

    def state() -> AttachedFile:
        found = store.attached_files.find(tenant, made.id, upload.id)
        assert found is not None
        return found

    return state


def texts(store: CorpusStore) -> list[str]:
    ids = [i for batch in store.vectors() for i in batch.chunk_ids.tolist()]
    return [passage.text for passage in store.passages(ids)]


def is_done(state: Callable[[], AttachedFile]) -> Callable[[], bool]:
    return lambda: state().state is not FileState.IN_PROGRESS


def test_lines_of_a_file_belong_to_the_tenant_of_its_key(server: FakeServer, store: CorpusStore):
    lines = (
        b'{"id": "x", "text": "one", "tenant": "b", "metadata": {"lang": "en"}}\n{"text": "two"}'
    )
    state = attached(store, lines, "notes.jsonl", "a", year=1850)
    with FileIndexing(server):
        eventually(is_done(state))
    file = state()
    assert (file.state, file.attempts, file.bytes > 2 * 4 * DIMS) == (FileState.COMPLETED, 1, True)
    owners = {(one.id, one.tenant, one.collection, one.file) for one in store.documents.listed()}
    place = f"{file.store_id}/{file.file_id}"
    assert owners == {(f"{place}/{number}", "a", file.store_id, "notes.jsonl") for number in (0, 1)}
    store.attached_files.attach("a", file.store_id, {file.file_id: {}}, now_s=NOW_S)
    store.uploads.delete("a", file.file_id)
    assert texts(store) == []


def test_a_file_waits_for_room_among_temporary_files(
    server: FakeServer, store: CorpusStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    state = attached(store, b"# Tides\nThey turn.")
    with FileIndexing(server):
        eventually(lambda: state().attempts > 0)
        (tmp_path / "none").mkdir()
        eventually(is_done(state))
    assert state().state is FileState.COMPLETED


def test_a_file_that_cannot_be_read_fails_in_its_owners_words(
    server: FakeServer, store: CorpusStore
):
    broken, empty = attached(store, b"PK\x03\x04", "a.docx"), attached(store, b" \n", "b.txt")
    bomb = attached(store, gzip.compress(b"\n" * 1_000_001), "c.jsonl.gz")
    with FileIndexing(server):
        eventually(is_done(broken))
        eventually(is_done(empty))
        eventually(is_done(bomb))
    assert (broken().state, broken().failure_kind) == (FileState.FAILED, "invalid_file")
    assert broken().failure.startswith("a.docx: ")
    assert "/tmp" not in broken().failure
    assert empty().failure == "b.txt: no text in it"
    assert bomb().failure == "c.jsonl.gz: over the limit of 1,000,000 lines; split it"


def test_a_lane_that_is_lost_is_tried_again_and_given_up(server: FakeServer, store: CorpusStore):
    server.failures = ATTEMPTS_MAX - 1
    state = attached(store, b"one")
    with FileIndexing(server):
        eventually(is_done(state))
        assert (state().state, state().attempts) == (FileState.COMPLETED, ATTEMPTS_MAX)
        server.failures = ATTEMPTS_MAX
        lost = attached(store, b"two")
        eventually(is_done(lost))
    assert (lost().state, lost().failure_kind) == (FileState.FAILED, "server_error")
    assert "lane lost" in lost().failure
    assert texts(store) == ["one"]


def test_a_file_that_ends_the_server_each_time_is_given_up(server: FakeServer, store: CorpusStore):
    state = attached(store, b"one")
    for _ in range(ATTEMPTS_MAX):
        store.file_queue.begin()
    with FileIndexing(server):
        eventually(is_done(state))
    assert "the server ended 3 times" in state().failure


def test_a_server_that_stops_leaves_its_file_to_the_next(server: FakeServer, store: CorpusStore):
    server.holds = True
    state = attached(store, b"one")
    with FileIndexing(server):
        assert server.is_held.wait(20)
    assert (state().state, state().attempts) == (FileState.IN_PROGRESS, 0)
    server.holds = False
    with FileIndexing(server):
        eventually(is_done(state))
    assert texts(store) == ["one"]


@pytest.mark.parametrize("how", ["file", "store"])
def test_nothing_of_a_file_comes_in_once_it_is_deleted(
    server: FakeServer, store: CorpusStore, how: str
):
    server.holds = True
    file = attached(store, b"one")()
    with FileIndexing(server) as indexing:
        assert server.is_held.wait(20)
        if how == "file":
            store.uploads.delete("", file.file_id)
            indexing.leave(file_id=file.file_id)
        else:
            store.vector_stores.delete("", file.store_id)
            indexing.leave(store_id=file.store_id)
        assert store.stats().documents == 0
    assert store.file_queue.begin() is None


def test_a_batch_that_is_admitted_while_its_file_is_left_is_cancelled(
    server: FakeServer, store: CorpusStore, monkeypatch: pytest.MonkeyPatch
):
    server.holds = True
    file = attached(store, b"one")()
    is_left, submit = threading.Event(), server.submit
    indexing = FileIndexing(server)

    def submit_late(*request: object, **how: object) -> SimpleNamespace:
        threading.Thread(target=leave).start()
        eventually(lambda: indexing._is_interrupted)
        return submit(*request, **how)

    def leave() -> None:
        store.uploads.delete("", file.file_id)
        indexing.leave(file_id=file.file_id)
        is_left.set()

    monkeypatch.setattr(server, "submit", submit_late)
    with indexing:
        assert is_left.wait(10)


class StalledParser(GuardedParser):
    """Reads a pipe in place of each file, so that its process is at it until a text is written."""

    pipe: Path

    def documents(self, path: Path) -> Iterator[Document]:
        return super().documents(self.pipe if self.pipe.exists() else path)


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "pipe.html"
    os.mkfifo(path)
    monkeypatch.setattr(StalledParser, "pipe", path, raising=False)
    monkeypatch.setattr(file_indexing, "GuardedParser", StalledParser)
    return path


def test_a_file_that_leaves_one_store_still_comes_into_another(
    server: FakeServer, store: CorpusStore, pipe: Path
):
    state = attached(store, b"<p>one", "a.html")
    file = state()
    other = store.vector_stores.add("", "", {}, now_s=NOW_S)
    store.attached_files.attach("", other.id, {file.file_id: {}}, now_s=NOW_S)
    app = FastAPI()
    with ChangeThreads() as changes, FileIndexing(server) as indexing:
        add_stores(app, Desk(server, indexing, changes))
        with pipe.open("wb") as parsed:  # once it can be written to, the parser is at it
            url = f"/v1/vector_stores/{other.id}/files/{file.file_id}"
            assert TestClient(app).delete(url).status_code == 200
            parsed.write(b"<p>one")
        eventually(is_done(state))
    assert (state().state, state().failure, state().attempts) == (FileState.COMPLETED, "", 1)
    assert texts(store) == ["one"]


def test_a_file_whose_parser_was_ended_while_it_waits_is_tried_again(
    server: FakeServer, store: CorpusStore, pipe: Path
):
    state = attached(store, b"<p>one", "a.html")
    file = state()
    with FileIndexing(server) as indexing:
        with pipe.open("wb"):
            pipe.unlink()  # the next attempt reads the file itself
            # As where it was taken out and put in again before the thread was asked to leave it.
            indexing.leave(file_id=file.file_id, store_id=file.store_id)
        eventually(is_done(state))
    assert (state().state, state().failure, state().attempts) == (FileState.COMPLETED, "", 1)


def test_one_of_two_servers_works_at_the_queue(server: FakeServer, store: CorpusStore):
    other = FakeServer(store)
    other.failures = 10**6
    with FileIndexing(server):
        first = attached(store, b"one")
        eventually(is_done(first))
        with FileIndexing(other):
            second = attached(store, b"two")
            eventually(is_done(second))
    assert second().state is FileState.COMPLETED
    assert other.failures == 10**6


class FakeClaim:
    """The sole right to the queue, which can be lost as with a database's session."""

    def __init__(self) -> None:
        self.is_held, self.releases = True, 0

    def release(self) -> None:
        self.releases += 1


def test_a_server_that_has_lost_the_queue_begins_no_file(
    server: FakeServer, store: CorpusStore, monkeypatch: pytest.MonkeyPatch
):
    first, again = FakeClaim(), FakeClaim()
    answers: list[FakeClaim | None] = [first]
    asked = threading.Semaphore(0)

    def claim() -> FakeClaim | None:
        asked.release()
        return answers[-1]

    monkeypatch.setattr(store.file_queue, "claim", claim)
    with FileIndexing(server):
        eventually(is_done(attached(store, b"one")))
        answers.append(None)  # another server has it now
        first.is_held = False
        assert asked.acquire(timeout=20)
        assert asked.acquire(timeout=20)  # asked anew: from here on the loss is known
        state = attached(store, b"two")
        assert asked.acquire(timeout=20)
        assert asked.acquire(timeout=20)
        assert (state().state, state().attempts) == (FileState.IN_PROGRESS, 0)
        answers.append(again)
        eventually(is_done(state))
    assert (state().state, state().attempts) == (FileState.COMPLETED, 1)
    assert (first.releases, again.releases) == (1, 1)


def test_a_server_whose_database_fails_asks_for_the_queue_anew(
    server: FakeServer, store: CorpusStore, monkeypatch: pytest.MonkeyPatch
):
    claims: list[FakeClaim] = []
    begin = store.file_queue.begin
    failures = [StorageError("the database is away")]

    def claim() -> FakeClaim:
        claims.append(FakeClaim())
        return claims[-1]

    def failing() -> AttachedFile | None:
        if failures:
            raise failures.pop()
        return begin()

    monkeypatch.setattr(store.file_queue, "claim", claim)
    monkeypatch.setattr(store.file_queue, "begin", failing)
    state = attached(store, b"one")
    with FileIndexing(server):
        eventually(is_done(state))
    assert [claim.releases for claim in claims] == [1, 1]
