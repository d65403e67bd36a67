"""A server that stops: old requests end, new ones are refused, and those cut get an error."""

import asyncio
import json
import logging

import httpx
import pytest
from starlette.responses import Response, StreamingResponse

from heddle.server.drain import CLOSING_S, Drain
from heddle.server.draining import Draining

GRACE_S = 30.0


class Slow:
    """An ASGI application: `/stream` has begun to answer, `/ask` hasn't, until they may go."""

    def __init__(self) -> None:
        self.begun, self.may_go = asyncio.Semaphore(0), asyncio.Event()

    async def __call__(self, scope, receive, send) -> None:
        if scope["path"] == "/stream":
            await StreamingResponse(self._events(), media_type="text/event-stream")(
                scope, receive, send
            )
            return
        if scope["path"] == "/ask":
            self.begun.release()
            await self.may_go.wait()
        await Response("well")(scope, receive, send)

    async def _events(self):
        yield b"event: token\ndata: {}\n\n"
        self.begun.release()
        await self.may_go.wait()
        yield b"event: answer\ndata: {}\n\n"


def client_of(app: Slow, drain: Drain) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(Draining(app, drain))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def begun(app: Slow, client: httpx.AsyncClient, *paths: str) -> list[asyncio.Task]:
    """Return requests that are under way."""
    asked = [asyncio.create_task(client.get(path)) for path in paths]
    for _ in asked:
        await app.begun.acquire()
    return asked


def test_what_is_under_way_ends_and_what_comes_is_refused() -> None:
    async def run() -> None:
        app, drain = Slow(), Drain(GRACE_S)
        async with client_of(app, drain) as client:
            asked = await begun(app, client, "/ask", "/stream")
            assert not drain.is_over(0.0)
            drain.begin()
            assert not drain.is_over(1.0)
            refused = await client.get("/other")
            assert refused.status_code == 503
            assert refused.json()["error"]["type"] == "Stopping"
            assert refused.headers["connection"] == "close"
            assert (await client.get("/health")).status_code == 200
            app.may_go.set()
            assert [(await answer).status_code for answer in asked] == [200, 200]
        assert drain.is_over(2.0)
        assert drain.cut == 0

    asyncio.run(run())


@pytest.mark.parametrize("is_hurried", [False, True])
def test_what_takes_too_long_is_cut_and_told(
    caplog: pytest.LogCaptureFixture, *, is_hurried: bool
) -> None:
    async def run() -> None:
        app, drain = Slow(), Drain(GRACE_S)
        async with client_of(app, drain) as client:
            ask, stream = await begun(app, client, "/ask", "/stream")
            drain.begin()
            assert not drain.is_over(0.0)
            if is_hurried:
                drain.begin()
            now_s = 0.1 if is_hurried else GRACE_S
            assert not drain.is_over(now_s)
            told = await ask
            assert (told.status_code, told.json()["error"]["type"]) == (503, "Stopping")
            kind, data = (await stream).text.strip().split("\n\n")[-1].split("\n")
            assert kind == "event: error"
            assert json.loads(data.removeprefix("data: "))["status"] == 503
            assert drain.is_over(now_s)
        assert drain.cut == 2

    with caplog.at_level(logging.WARNING, "heddle"):
        asyncio.run(run())
    assert "2 under way, with 30 s to end" in caplog.messages[0]
    assert caplog.messages[1] == "stopping: 2 cut"


def test_a_request_that_does_not_end_when_it_is_cut_holds_nobody_up_for_long() -> None:
    async def stubborn() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    async def run() -> None:
        drain = Drain(0.0)
        task = asyncio.create_task(stubborn())
        drain.add(task, lambda: None)
        await asyncio.sleep(0)
        drain.begin()
        assert not drain.is_over(5.0)
        await asyncio.sleep(0)
        assert not drain.is_over(5.0 + CLOSING_S / 2)
        assert drain.is_over(5.0 + CLOSING_S)
        task.cancel()
        await task

    asyncio.run(run())


def test_an_idle_server_stops_at_once() -> None:
    drain = Drain(GRACE_S)
    assert not drain.is_over(0.0)
    drain.begin()
    assert drain.is_over(0.0)


def test_a_connection_that_is_closed_ends_its_request() -> None:
    async def run() -> None:
        app, drain = Slow(), Drain(GRACE_S)
        async with client_of(app, drain) as client:
            (ask,) = await begun(app, client, "/ask")
            ask.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ask
            await asyncio.sleep(0)
            assert drain.under_way == 0

    asyncio.run(run())


def test_no_request_of_another_kind_is_counted() -> None:
    seen = []

    async def app(scope, receive, send) -> None:
        seen.append(scope["type"])

    drain = Drain()
    drain.begin()
    asyncio.run(Draining(app, drain)({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]
