"""The lines of a stream, as an engine by its address reads them from a scripted server."""

import asyncio
import json

import pytest

from heddle.adapters.by_url import ByUrl
from heddle.adapters.values import ChatCall, ChatReply
from tests.helpers.fake_endpoint import DONE_EVENT, END, FakeEndpoint, chunk, plain, stream_head

TEXT = "One\u2028two\u2029three\x85four"
CALL = ChatCall([{"role": "user", "content": "Who?"}])
CLOSE = "Connection: close\r\n"  # so that no client has a connection left at the test's end
MODELS = plain(200, {"data": [{"id": "reader", "kind": "llm"}]}, CLOSE)
HEAD = stream_head(f"text/event-stream\r\n{CLOSE.strip()}")


def raw(text: str, reason: str | None = None) -> bytes:
    """Return an event with the characters of a text as they are."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice]}, ensure_ascii=False).encode()


def asked(url: str, *, waits: bool) -> list[str | ChatReply]:
    engine = ByUrl(url)

    async def run() -> list[str | ChatReply]:
        return [item async for item in engine.achat(CALL)]

    try:
        return list(engine.chat(CALL)) if waits else asyncio.run(run())
    finally:
        engine.close()


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_only_ends_of_lines_end_the_lines_of_a_stream(end: bytes, *, waits: bool):
    frames = raw(TEXT) + end + raw("", "stop") + end + DONE_EVENT
    pieces = [chunk(frames[at : at + 7]) for at in range(0, len(frames), 7)]
    with FakeEndpoint(others={"/models": MODELS}) as server:
        server.replies.append((HEAD, *pieces, END))
        *texts, reply = asked(server.url, waits=waits)
    assert texts == [TEXT]
    assert isinstance(reply, ChatReply)
    assert (reply.text, reply.finish_reason) == (TEXT, "stop")


def test_a_last_line_needs_no_end():
    with FakeEndpoint(others={"/models": MODELS}) as server:
        server.replies.append((HEAD, chunk(raw("Ada", "stop")), END))
        *texts, reply = asked(server.url, waits=True)
    assert texts == ["Ada"]
    assert isinstance(reply, ChatReply)
