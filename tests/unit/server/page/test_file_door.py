"""POST /v1/documents/file: files that are put in, and refused."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from heddle.corpus.chunking import Chunking
from heddle.corpus.ingestion import DEFAULT_CHUNKING
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.server.http import create_app
from heddle.server.page import file_turns
from tests.unit.app.indexing.test_documents import FakeLanes

AT = "/v1/documents/file"
WAIT_S = 20
NOTES = {"file": ("notes.md", b"# Mill\nThe mill grinds rye.")}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CorpusStore]:
    with CorpusStore.open(tmp_path / "corpus", create=True) as opened:
        opened.set_embedder(EmbedderStamp("fake", 4, "float32"))
        yield opened


def app_of(
    store: CorpusStore,
    *,
    takes_changes: bool = True,
    chunking: Callable[[], Chunking] = lambda: DEFAULT_CHUNKING,
) -> FastAPI:
    server: Any = SimpleNamespace(store=store, submit=FakeLanes(store).submit, chunking=chunking)
    return create_app(server, {}, takes_changes=takes_changes)


def client_of(store: CorpusStore, *, takes_changes: bool = True) -> TestClient:
    return TestClient(app_of(store, takes_changes=takes_changes), base_url="http://localhost")


def test_a_file_is_put_in_for_a_tenant(store: CorpusStore):
    with client_of(store) as client:
        reply = client.post(AT, files=NOTES, params={"tenant": "ann"})
        assert reply.status_code == 200, reply.text
        body = reply.json()
        assert (body["documents"], body["outcomes"]) == (1, {"added": 1})
        assert (body["chunks"], body["revision"]) == (1, store.revision)
        again = client.post(AT, files=NOTES, params={"tenant": "ann"})
        assert again.json()["outcomes"] == {"unchanged": 1}
    assert [(one.id, one.tenant, one.file) for one in store.documents.listed()] == [
        ("notes.md", "ann", "notes.md")
    ]


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        ({"files": {"file": ("run.exe", b"MZ")}}, 400, "is of no type that is read"),
        ({"files": {"file": ("a.pdf", b"%PDF-1.7 no more")}}, 400, "a.pdf: "),
        ({"files": {"other": (None, "x")}}, 400, "no part `file`"),
        ({"files": NOTES, "data": {"purpose": "dinner"}}, 400, "purpose must be one of"),
        ({"files": NOTES, "headers": {"Origin": "https://evil.example"}}, 403, "another site"),
        ({"files": NOTES, "params": {"tenant": "x" * 300}}, 400, "tenant"),
        ({"json": {"file": "x"}}, 415, "multipart/form-data"),
    ],
)
def test_what_can_not_be_taken_is_refused_by_name(
    store: CorpusStore, sent: dict, status: int, words: str
):
    with client_of(store) as client:
        reply = client.post(AT, **sent)
    assert (reply.status_code, words in reply.text) == (status, True), reply.text
    assert list(store.documents.listed()) == []


def test_a_server_without_changes_reads_no_body(store: CorpusStore):
    with client_of(store, takes_changes=False) as client:
        refused = client.post(AT, content=b"never read")
    assert (refused.status_code, "--allow-changes" in refused.text) == (403, True)


def at_once(app: FastAPI, work: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    """Do some work with a client that may have several requests under way."""

    async def run() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await work(client)

    asyncio.run(run())


def test_clients_that_send_slowly_hold_up_no_file(store: CorpusStore):
    async def work(client: httpx.AsyncClient) -> None:
        may_end, has_begun = asyncio.Event(), asyncio.Semaphore(0)

        async def body() -> AsyncIterator[bytes]:
            yield b"--b\r\n"
            has_begun.release()
            await may_end.wait()

        form = {"Content-Type": "multipart/form-data; boundary=b", "Content-Length": "1000"}
        slow = [client.post(AT, content=body(), headers=form) for _ in range(8)]
        sending = asyncio.gather(*slow)
        async with asyncio.timeout(WAIT_S):
            for _ in slow:
                await has_begun.acquire()
            reply = await client.post(AT, files=NOTES)
        may_end.set()
        assert reply.status_code == 200, reply.text
        assert {one.status_code for one in await sending} == {400}

    at_once(app_of(store), work)


@pytest.mark.parametrize(
    ("bound", "value", "words"),
    [("TURN_S", 0.0, "had no turn"), ("HELD_BYTES_MAX", 40, "wait to be read already")],
)
def test_a_file_that_has_no_turn_is_refused_and_may_come_again(
    store: CorpusStore, monkeypatch: pytest.MonkeyPatch, bound: str, value: float, words: str
):
    has_begun, may_end = threading.Event(), threading.Event()
    is_first = True

    def chunking() -> Chunking:
        nonlocal is_first
        if is_first:
            is_first = False
            has_begun.set()
            assert may_end.wait(WAIT_S)
        return DEFAULT_CHUNKING

    async def work(client: httpx.AsyncClient) -> None:
        first = asyncio.create_task(client.post(AT, files=NOTES))
        await asyncio.to_thread(has_begun.wait, WAIT_S)
        monkeypatch.setattr(file_turns, bound, value)
        second = await client.post(AT, files=NOTES)
        may_end.set()
        assert (second.status_code, words in second.text) == (503, True), second.text
        assert int(second.headers["Retry-After"]) > 0
        assert (await first).json()["outcomes"] == {"added": 1}
        assert (await client.post(AT, files=NOTES)).json()["outcomes"] == {"unchanged": 1}

    at_once(app_of(store, chunking=chunking), work)
