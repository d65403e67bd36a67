"""What a client of streams hears, and that an error isn't waited on."""

import asyncio
import contextlib

import pytest

from benchmarks.support.stream_load import Asking, Heard, heard_streams

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM = HEAD + b"6\r\ntoken \r\n3\r\nend\r\n0\r\n\r\n"
REFUSAL = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}"


def asked(reply: bytes, clients: int, each: int) -> list[Heard]:
    """What clients hear of a server that gives one reply to every request."""
    handlers: list[asyncio.Task[None] | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):  # a request is one small piece
                writer.write(reply)
            writer.close()
            await writer.wait_closed()

    async def serve() -> list[Heard]:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            asking = Asking(server.sockets[0].getsockname()[1], "/", {}, b"token")
            try:
                return await asyncio.to_thread(heard_streams, asking, clients, each, 0.0)
            finally:
                await asyncio.gather(*(task for task in handlers if task is not None))

    return asyncio.run(serve())


def test_each_stream_is_heard_in_its_pieces() -> None:
    heard = asked(STREAM, clients=2, each=3)
    assert [one.pieces for one in heard] == [[b"token ", b"end"]] * 6
    assert all(0.0 < one.first_s <= one.whole_s for one in heard)


def test_an_error_is_raised_with_its_text() -> None:
    with pytest.raises(ConnectionError, match="400 Bad Request"):
        asked(REFUSAL, clients=1, each=1)


def test_a_reply_without_a_body_has_no_pieces() -> None:
    assert Heard(0.0, 0.0, HEAD + b"0\r\n\r\n").pieces == []
