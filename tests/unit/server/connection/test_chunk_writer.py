"""What a client receives of a stream is what uvicorn alone sends, byte by byte."""

import asyncio
import re
import socket

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from heddle.server.bounded_connection import BoundedConnection

LONG = b"x" * 300_000  # more than a socket and uvicorn hold: its rest waits for the client
PIECES = (b"one", b"", b"two" * 99, *[LONG] * 20, b"end")


async def application(scope, receive, send) -> None:
    """Streams the pieces, after a head as the query wants it."""
    status = 204 if scope["path"] == "/204" else 200
    sized = scope["path"] == "/sized"
    size = str(sum(map(len, PIECES))).encode()
    head = [(b"content-type", b"text/plain"), *([(b"Content-Length", size)] if sized else [])]
    await send({"type": "http.response.start", "status": status, "headers": head})
    for piece in () if status == 204 else PIECES:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def received(protocol: type[H11Protocol], asked: bytes, *, slowly: bool) -> bytes:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, log_level="critical", lifespan="off", http=protocol)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    writer.write(asked + b"Host: localhost\r\nConnection: close\r\n\r\n")
    found = b""
    while part := await reader.read(1 << 14 if slowly else -1):
        found += part
        await asyncio.sleep(0)
    writer.close()
    server.should_exit = True
    await task
    return re.sub(rb"date: [^\r]*", b"", found)


@pytest.mark.parametrize("path", [b"/", b"/sized", b"/204"])
@pytest.mark.parametrize(
    "how", [b"GET %b HTTP/1.1\r\n", b"GET %b HTTP/1.0\r\n", b"HEAD %b HTTP/1.1\r\n"]
)
def test_a_stream_has_uvicorns_own_bytes(how: bytes, path: bytes):
    async def both() -> tuple[bytes, bytes]:
        async with asyncio.timeout(30):
            ours = await received(BoundedConnection, how % path, slowly=True)
            return ours, await received(H11Protocol, how % path, slowly=False)

    ours, theirs = asyncio.run(both())
    assert theirs.startswith(b"HTTP/1.1 20")
    assert ours == theirs
