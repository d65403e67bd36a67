"""Connections that ask for nothing are closed in time, and make room for those that ask."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import Response

from heddle.server import bounded_connection
from heddle.server.bounded_connection import HEAD_BYTES_MAX, IDLE_S, BoundedConnection

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: lo"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def application(scope, receive, send) -> None:
    """Answers `/early` before the body is there, all else after it; `/large` in 16 MiB."""
    request = Request(scope, receive)
    if scope["path"] != "/early":
        await request.body()
    await Response("well" * (4 << 20 if scope["path"] == "/large" else 1))(scope, receive, send)


@asynccontextmanager
async def serving():
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        log_level="critical",
        lifespan="off",
        http=BoundedConnection,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    port = listener.getsockname()[1]
    opened: list[Streams] = []

    async def connect() -> Streams:
        opened.append(await asyncio.open_connection("127.0.0.1", port))
        return opened[-1]

    try:
        yield connect
    finally:
        for _, writer in opened:
            writer.close()
        server.should_exit = True
        await task


def played(play: Callable[[Callable[[], Awaitable[Streams]]], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(20), serving() as connect:
            await play(connect)
        assert not BoundedConnection.waiting

    asyncio.run(run())


async def asked(streams: Streams, text: bytes = HEAD) -> bytes:
    reader, writer = streams
    writer.write(text)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(len(b"well"))
    return head


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "HEAD_S", 0.2)


@pytest.mark.parametrize("sent", [b"", HALF])
def test_a_head_that_does_not_come_is_given_up(sent: bytes, hasty: None):
    async def play(connect) -> None:
        reader, writer = await connect()
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")

    played(play)


def test_bytes_that_trickle_in_buy_no_time(hasty: None):
    async def play(connect) -> None:
        reader, writer = await connect()
        writer.write(HALF)
        answer = asyncio.create_task(reader.read())
        while not answer.done():  # else this would never end
            writer.write(b"h")
            await asyncio.wait([answer], timeout=0.05)
        assert answer.result().startswith(b"HTTP/1.1 408 ")

    played(play)


def test_the_next_head_on_a_connection_has_its_time_too(hasty: None):
    async def play(connect) -> None:
        reader, writer = await connect()
        for _ in range(3):
            assert b"200 OK" in await asked((reader, writer))
        writer.write(HALF)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")

    played(play)


def test_a_slow_answer_is_waited_for(hasty: None):
    async def play(connect) -> None:
        reader, writer = await connect()
        body = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab"
        writer.write(body)
        await asyncio.sleep(0.4)  # the time of a body is the application's
        assert b"200 OK" in await asked((reader, writer), b"cd")

    played(play)


def test_a_body_that_nobody_reads_is_not_waited_for(hasty: None):
    async def play(connect) -> None:
        reader, writer = await connect()
        half = b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab"
        assert b"200 OK" in await asked((reader, writer), half)
        assert await reader.read() == b""

    played(play)


def test_those_that_wait_longest_make_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounded_connection, "WAITING_MAX", 3)

    async def play(connect) -> None:
        idle = [await connect() for _ in range(3)]
        for _, writer in idle:
            writer.write(HALF)
        await asyncio.sleep(0.1)
        assert b"200 OK" in await asked(await connect())
        assert await idle[0][0].read() == b""  # closed
        assert b"200 OK" in await asked(idle[2], b"calhost\r\n\r\n")

    played(play)


def test_a_long_head_in_pieces_is_refused():
    async def play(connect) -> None:
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * (HEAD_BYTES_MAX + 1))
        assert (await reader.read()).startswith(b"HTTP/1.1 4")

    played(play)


def test_an_answered_connection_is_kept_longer_than_clients_keep_it():
    async def play(connect: Callable[[], Awaitable[Streams]]) -> None:
        streams = await connect()
        await asked(streams)
        (kept,) = BoundedConnection.waiting
        closes = kept.timeout_keep_alive_task
        left_s = closes.when() - asyncio.get_running_loop().time()
        assert 5 < left_s <= IDLE_S  # httpx's own limit is 5 s
        closes.cancel()
        kept.timeout_keep_alive_handler()
        assert await streams[0].read() == b""

    played(play)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such limit")
def test_a_client_that_takes_nothing_of_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounded_connection, "UNREAD_MS_MAX", 300)
    ends: asyncio.Queue[Exception | None] = asyncio.Queue()
    forget = BoundedConnection.connection_lost

    def connection_lost(self: BoundedConnection, exc: Exception | None) -> None:
        ends.put_nowait(exc)
        forget(self, exc)

    monkeypatch.setattr(BoundedConnection, "connection_lost", connection_lost)

    async def play(connect) -> None:
        _, writer = await connect()
        writer.write(HEAD.replace(b"/", b"/large", 1))
        assert isinstance(await ends.get(), TimeoutError)

    played(play)
