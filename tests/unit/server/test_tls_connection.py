"""Connections over TLS keep the bounds of plain ones, from their first byte on."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import Response

from heddle.server import bounded_connection
from heddle.server.bounded_connection import HEAD_BYTES_MAX, BoundedConnection
from heddle.server.tls import tls_context
from heddle.server.tls_connection import TlsConnection
from tests.helpers.certificates import Certificate, self_signed

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "HEAD_S", 0.2)


async def application(scope, receive, send) -> None:
    """Answers with the scheme and the body's length."""
    body = await Request(scope, receive).body()
    await Response(f"{scope['scheme']} {len(body)}")(scope, receive, send)


@asynccontextmanager
async def serving(made: Certificate):
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        log_level="critical",
        lifespan="off",
        http=partial(TlsConnection, tls_context(*made)),
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    port = listener.getsockname()[1]
    trusted = ssl.create_default_context(cafile=made.certificate)
    opened: list[Streams] = []

    async def connect(*, is_plain: bool = False) -> Streams:
        tls = None if is_plain else trusted
        opened.append(await asyncio.open_connection("127.0.0.1", port, ssl=tls))
        return opened[-1]

    try:
        yield connect
    finally:
        for _, writer in opened:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        server.should_exit = True
        await task
        assert not server.server_state.connections


def played(made: Certificate, play: Callable[[Callable[..., Awaitable[Streams]]], Awaitable[None]]):
    async def run() -> None:
        async with asyncio.timeout(20), serving(made) as connect:
            await play(connect)
        assert not BoundedConnection.waiting

    asyncio.run(run())


async def asked(streams: Streams, text: bytes = HEAD, answer: bytes = b"https 0") -> None:
    reader, writer = streams
    writer.write(text)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
    assert await reader.readexactly(len(answer)) == answer


def test_requests_follow_each_other_and_bodies_come_whole(made: Certificate):
    async def play(connect) -> None:
        streams = await connect()
        await asked(streams)
        body = b"x" * 1_000_000
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
        await asked(streams, head + body, b"https 1000000")
        await asked(streams)

    played(made, play)


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(made: Certificate):
    """Written before the handshake's last message is read, it reaches the server in one piece."""

    async def play(connect) -> None:
        reader, writer = await connect(is_plain=True)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=made.certificate)
        tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        is_shaken = False
        while not is_shaken:
            try:
                tls.do_handshake()
                is_shaken = True
                tls.write(HEAD)
            except ssl.SSLWantReadError:
                pass
            writer.write(outgoing.read())
            if not is_shaken:
                incoming.write(await reader.read(65_536))
        answer = b""
        while b"https 0" not in answer:
            incoming.write(await reader.read(65_536))
            with suppress(ssl.SSLWantReadError):
                while True:  # a record for each piece
                    answer += tls.read(65_536)

    played(made, play)


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_a_handshake_that_does_not_end_is_given_up(sent: bytes, made: Certificate, hasty: None):
    async def play(connect) -> None:
        reader, writer = await connect(is_plain=True)
        writer.write(sent)
        assert await ended(reader) == b""

    played(made, play)


@pytest.mark.parametrize("sent", [HEAD, b"\x16\x03\x01\x00\x04c\x00\x00\x00"])
def test_what_is_no_handshake_gets_no_answer(sent: bytes, made: Certificate):
    async def play(connect) -> None:
        reader, writer = await connect(is_plain=True)
        writer.write(sent)
        assert b"HTTP" not in await ended(reader)
        await asked(await connect())

    played(made, play)


def test_a_client_that_leaves_in_its_handshake_is_forgotten(made: Certificate):
    async def play(connect) -> None:
        _, writer = await connect(is_plain=True)
        writer.write(b"\x16\x03\x01")
        writer.close()
        await asked(await connect())

    played(made, play)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: lo"])
def test_a_head_that_does_not_come_is_given_up(sent: bytes, made: Certificate, hasty: None):
    async def play(connect) -> None:
        reader, writer = await connect()
        writer.write(sent)
        assert (await ended(reader)).startswith(b"HTTP/1.1 408 ")

    played(made, play)


def test_handshakes_make_room_for_those_that_ask(
    made: Certificate, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bounded_connection, "WAITING_MAX", 2)
    monkeypatch.setattr(bounded_connection, "HEAD_S", 60.0)  # it is not their time that ends

    async def play(connect) -> None:
        idle = [await connect(is_plain=True) for _ in range(4)]
        await asked(await connect())
        assert await ended(idle[0][0]) == b""
        assert await ended(idle[1][0]) == b""
        assert len(BoundedConnection.waiting) <= 2

    played(made, play)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return the rest of what comes until the server closes, in order or not."""
    found = b""
    with suppress(ConnectionResetError):
        while part := await reader.read(65_536):
            found += part
    return found
