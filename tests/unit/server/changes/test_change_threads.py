"""The threads of changes: apart from those of questions, in the context of a request, closed."""

import asyncio
import threading
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import httpx
import pytest

from heddle.corpus.store import CorpusStore
from heddle.server.changes import change_threads
from heddle.server.changes.change_threads import ChangeThreads
from heddle.server.http import create_app
from tests.unit.corpus.corpora import STAMP

WAIT_S = 10
REQUEST: ContextVar[str] = ContextVar("REQUEST", default="")


def test_a_change_has_the_context_of_its_request_and_its_error_is_raised():
    def change(number: int, *, fails: bool) -> tuple[int, str]:
        if fails:
            raise KeyError(number)
        return number, REQUEST.get()

    async def run() -> tuple[int, str]:
        REQUEST.set("a")
        with ChangeThreads() as changes:
            with pytest.raises(KeyError):
                await changes.run(change, 1, fails=True)
            return await changes.run(change, 2, fails=False)

    assert asyncio.run(run()) == (2, "a")


def test_the_end_waits_for_what_has_begun_and_drops_the_rest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(change_threads, "THREADS_MAX", 1)
    monkeypatch.setattr(change_threads, "wait", lambda *how: wait(*how))
    has_begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def wait(under_way: set[Future[Any]], timeout_s: float) -> object:
        may_end.set()  # not before: the second change would have begun
        return futures.wait(under_way, timeout_s)

    def slow() -> None:
        has_begun.set()
        assert may_end.wait(WAIT_S)
        done.append("slow")

    async def run() -> list[Any]:
        with ChangeThreads() as changes:
            asked = [
                asyncio.create_task(changes.run(slow)),
                asyncio.create_task(changes.run(done.append, "late")),
            ]
            await asyncio.sleep(0)
            assert has_begun.wait(WAIT_S)
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second = asyncio.run(run())
    assert first is None
    assert isinstance(second, asyncio.CancelledError)
    assert done == ["slow"]


class NoThreads(ThreadPoolExecutor):
    """The event loop's own threads, all of which questions have taken."""

    def submit(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("a change asked for a thread of questions")


def test_files_and_stores_are_changed_without_the_threads_of_questions(tmp_path: Path):
    async def run(store: CorpusStore) -> list[int]:
        asyncio.get_running_loop().set_default_executor(NoThreads(1))
        indexing: Any = SimpleNamespace(wake=lambda: None, leave=lambda **_: None)
        server: Any = SimpleNamespace(store=store)
        transport = httpx.ASGITransport(create_app(server, {}, file_indexing=indexing))
        form = {"files": {"file": ("a.md", b"# Mill")}, "data": {"purpose": "assistants"}}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            file = await client.post("/v1/files", **form)
            put = {"file_ids": [file.json()["id"]]}
            shelf = await client.post("/v1/vector_stores", json=put)
            at = f"/v1/vector_stores/{shelf.json()['id']}"
            batch = await client.post(f"{at}/file_batches", json=put)
            replies = [
                file,
                shelf,
                batch,
                await client.post(f"{at}/file_batches/{batch.json()['id']}/cancel"),
                await client.post(at, json={"name": "b"}),
                await client.delete(f"{at}/files/{put['file_ids'][0]}"),
                await client.delete(at),
                await client.delete(f"/v1/files/{put['file_ids'][0]}"),
            ]
        return [reply.status_code for reply in replies]

    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        store.set_embedder(STAMP)
        assert asyncio.run(run(store)) == [200] * 8
