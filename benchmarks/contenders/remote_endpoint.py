"""A fake OpenAI-like server: it waits, then streams tokens at a steady pace.

All streams are driven by timers of one event loop; it runs in a process of its own and prints its
port.
"""

import asyncio
import contextlib
import json
import sys

from benchmarks.contenders.pace import WORD, Pace

MODEL = "fake"


def _event(value: object) -> bytes:
    data = b"data: " + json.dumps(value).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def _piece(text: str, reason: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": reason}
    return _event(
        {
            "id": "chatcmpl-0123456789abcdef",
            "object": "chat.completion.chunk",
            "created": 1780000000,
            "model": MODEL,
            "choices": [choice],
        }
    )


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


async def _serve(pace: Pace, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            body = await reader.readexactly(int(length or 0))
            if head.startswith(b"get"):
                writer.write(_whole(200, {"data": [{"id": MODEL}]}))
            elif body == b"{}":
                writer.write(_whole(400, {"error": {"message": "no messages"}}))
            else:
                await _stream(pace, writer)
    writer.close()


async def _stream(pace: Pace, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(pace.first_s)
    writer.write(HEAD + _piece(WORD, None))
    for _ in range(pace.tokens - 1):
        await asyncio.sleep(pace.gap_s)
        writer.write(_piece(WORD, None))
    writer.write(_piece("", "stop") + END)


def _whole(status: int, value: object) -> bytes:
    data = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def main(pace: Pace) -> None:
    """Serve until the process is ended."""
    server = await asyncio.start_server(lambda r, w: _serve(pace, r, w), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Pace.of_arguments(*sys.argv[1:])))
