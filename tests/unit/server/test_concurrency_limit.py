"""Requests beyond the limit are refused at once, and those that end make room."""

import asyncio

import httpx
import pytest
from starlette.responses import Response

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


async def opened(limited: ConcurrencyLimit) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(limited, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://heddle")


def test_one_too_many_is_refused_and_told_when_to_come_again() -> None:
    async def run() -> None:
        app = Held()
        async with await opened(ConcurrencyLimit(app, 2)) as client:
            asked = [asyncio.create_task(client.get("/ask")) for _ in range(2)]
            for _ in asked:
                await app.begun.acquire()
            refused = await client.post("/ask", content=b"x")
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
                    await limited({"type": "http", "path": "/bug"}, None, None)
            else:
                asked = asyncio.create_task(client.get("/ask"))
                await app.begun.acquire()
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
            app.may_go.set()
            assert (await client.get("/ask")).status_code == 200

    asyncio.run(run())
