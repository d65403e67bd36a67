"""Requests beyond the limit are refused at once, and those that end make room."""

import asyncio

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from heddle.core.errors import Busy
from heddle.server import concurrency_limit
from heddle.server.concurrency_limit import ConcurrencyLimit


class Held:
    """An ASGI application whose answers wait until they may go; `/bug` raises."""

    def __init__(self) -> None:
        self.begun, self.may_go = asyncio.Semaphore(0), asyncio.Event()
        self.paths: list[str] = []

    async def __call__(self, scope, receive, send) -> None:
        self.paths.append(scope["path"])
        self.begun.release()
        if scope["path"] == "/bug":
            raise RuntimeError("a bug")
        if scope["path"] == "/ask":
            await self.may_go.wait()
        await Response("well")(scope, receive, send)


def scope_of(path: str, *headers: tuple[bytes, bytes]) -> dict[str, object]:
    return {"type": "http", "path": path, "query_string": b"", "headers": headers}


async def opened(limited: ConcurrencyLimit) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(limited, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def test_one_too_many_is_refused_and_told_when_to_come_again() -> None:
    async def run() -> None:
        app = Held()
        async with await opened(ConcurrencyLimit(app, 2)) as client:
            asked = [asyncio.create_task(client.get("/ask")) for _ in range(2)]
            for _ in asked:
                await app.begun.acquire()
            refused = await client.get("/ask")
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            error = refused.json()["error"]
            assert error["type"] == "Busy"
            assert "2 HTTP requests are under way" in error["message"]
            assert "--limit-concurrency" in error["message"]
            for page in ("/health", "/metrics"):
                assert (await client.get(page)).status_code == 200
            app.may_go.set()
            assert [(await answer).status_code for answer in asked] == [200, 200]
            assert (await client.get("/ask")).status_code == 200
            assert app.paths == ["/ask", "/ask", "/health", "/metrics", "/ask"]

    asyncio.run(run())


@pytest.mark.parametrize("ends", ["raises", "is cancelled"])
def test_a_request_that_never_answers_makes_room_as_well(ends: str) -> None:
    async def run() -> None:
        app = Held()
        limited = ConcurrencyLimit(app, 1)
        async with await opened(limited) as client:
            if ends == "raises":
                with pytest.raises(RuntimeError, match="a bug"):
                    await limited(scope_of("/bug"), None, None)
            else:
                asked = asyncio.create_task(client.get("/ask"))
                await app.begun.acquire()
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
            app.may_go.set()
            assert (await client.get("/ask")).status_code == 200

    asyncio.run(run())


class Reading:
    """An ASGI application that reads the body and then waits until it may answer."""

    def __init__(self) -> None:
        self.may_go = asyncio.Event()

    async def __call__(self, scope, receive, send) -> None:
        try:
            body = await Request(scope, receive).body()
        except Busy as busy:
            await Response(str(busy), 503)(scope, receive, send)
            return
        await self.may_go.wait()
        await Response(body)(scope, receive, send)


def post(limited: ConcurrencyLimit, parts: asyncio.Queue[bytes | None]) -> asyncio.Task[int]:
    """Send a body part by part, None ends it; the result is the status."""

    async def receive():
        part = await parts.get()
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    statuses: list[int] = []

    async def send(message) -> None:
        statuses.append(message.get("status", 0))

    async def run() -> int:
        await limited(scope_of("/ask", (b"transfer-encoding", b"chunked")), receive, send)
        return statuses[0]

    return asyncio.create_task(run())


def test_a_body_that_is_still_coming_takes_no_place() -> None:
    async def run() -> None:
        app = Reading()
        limited = ConcurrencyLimit(app, 1)
        slow: list[asyncio.Queue[bytes | None]] = [asyncio.Queue() for _ in range(3)]
        answers = [post(limited, parts) for parts in slow]
        for parts in slow:
            parts.put_nowait(b"half")
        whole: asyncio.Queue[bytes | None] = asyncio.Queue()
        whole.put_nowait(None)
        first = post(limited, whole)
        await asyncio.sleep(0)
        slow[0].put_nowait(None)  # is whole while the only place is taken
        assert await answers[0] == 503
        app.may_go.set()
        assert await first == 200
        for parts, answer in zip(slow[1:], answers[1:], strict=True):
            parts.put_nowait(None)
            assert await answer == 200

    asyncio.run(asyncio.wait_for(run(), 20))


def test_the_bodies_that_are_held_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency_limit, "BODIES_BYTES_MAX", 10)

    async def run() -> None:
        app = Reading()
        app.may_go.set()
        limited = ConcurrencyLimit(app, 9)
        first: asyncio.Queue[bytes | None] = asyncio.Queue()
        held = post(limited, first)
        first.put_nowait(b"123456")
        await asyncio.sleep(0.01)
        second: asyncio.Queue[bytes | None] = asyncio.Queue()
        second.put_nowait(b"12345")
        assert await post(limited, second) == 503
        first.put_nowait(None)
        assert await held == 200
        second.put_nowait(b"1234567890")
        second.put_nowait(None)
        assert await post(limited, second) == 200

    asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize(
    "headers",
    [
        [(b"x", b"y")] * (concurrency_limit.HEADERS_MAX + 1),
        [(b"x", b"y" * concurrency_limit.HEAD_BYTES_MAX)],
    ],
)
def test_a_long_head_is_refused(headers: list[tuple[bytes, bytes]]) -> None:
    async def run() -> None:
        sent: list[dict[str, object]] = []

        async def send(message) -> None:
            sent.append(message)

        limited = ConcurrencyLimit(Held(), 1)
        await limited(scope_of("/ask", *headers), None, send)
        assert sent[0]["status"] == 431
        assert b"send fewer" in sent[1]["body"]

    asyncio.run(run())
