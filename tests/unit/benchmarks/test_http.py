"""That both contenders send one text in the same bytes, and how turns become the headline."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest

from benchmarks.contenders.http_bare import bare_app
from benchmarks.contenders.http_heddle import PacedServer
from benchmarks.contenders.pace import Pace
from benchmarks.http import BODY, PACE, Turn, check_text, headline
from benchmarks.support.stream_load import Heard
from heddle.core.errors import InternalError
from heddle.server.http import create_app

AT_ONCE = Pace(PACE.tokens, 0.0, 0.0)
TURN = Turn(20.0, 40.0, 600.0, 700.0, cpu_ms=2.0, bytes_a_request=9e3, share_same_bytes=1.0)


def heard(pieces: Sequence[bytes]) -> Heard:
    """A stream of these pieces as HTTP carries it."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return Heard(0.02, 0.6, b"HTTP/1.1 200 OK\r\n\r\n" + chunks + b"0\r\n\r\n")


def sent_by(app: Any) -> bytes:
    """The body of an application's reply to the benchmark's request."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/v1/chat/completions", json=BODY)

    reply = asyncio.run(ask())
    assert reply.status_code == 200
    return reply.content


@pytest.fixture(scope="module")
def from_heddle() -> Iterator[bytes]:
    server = PacedServer(AT_ONCE)
    server.thread.start()
    yield sent_by(create_app(cast("Any", server), {}))
    server.thread.shut()
    server.thread.stop()
    server.thread.dispose()


def test_the_bare_server_sends_the_bytes_of_heddles_reply(from_heddle: bytes) -> None:
    frames = [frame + b"\n\n" for frame in from_heddle.split(b"\n\n") if frame]
    assert sent_by(bare_app(frames, AT_ONCE)) == from_heddle
    check_text(heard([from_heddle]))
    turn = Turn.of([heard(frames)] * 3 + [heard([*frames, b": x\n\n"])], 0.008, len(from_heddle))
    assert (turn.cpu_ms, turn.share_same_bytes) == (2.0, 0.75)
    assert turn.first_p50_ms == pytest.approx(20.0)


def test_a_stream_that_lacks_a_token_or_its_end_fails_the_run(from_heddle: bytes) -> None:
    with pytest.raises(InternalError, match="another text"):
        check_text(heard([from_heddle.replace(b" word", b"", 1)]))
    with pytest.raises(InternalError, match="no end"):
        check_text(heard([from_heddle.removesuffix(b"data: [DONE]\n\n")]))


def test_the_headline_is_the_median_of_turns_side_by_side() -> None:
    slower = [(1.0, 1.0), (1.2, 3.0), (5.0, 9.0)]
    rows = [
        {
            "bare": TURN,
            "heddle": replace(TURN, first_p50_ms=20 * x, first_p99_ms=80 * x, cpu_ms=2 + ms),
        }
        for x, ms in slower
    ]
    assert headline(rows) == {
        "x_bare_p50": 1.2,
        "x_bare_p99": 2.4,
        "added_cpu_ms_a_request": 3.0,
        "streams": 64,
    }
