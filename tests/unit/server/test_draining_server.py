"""The HTTP server's own end: by a signal, or because it can't go on."""

import asyncio
import signal

import pytest
import uvicorn

from heddle.server.drain import Drain
from heddle.server.draining_server import TICKS_A_LOOK, DrainingServer


def server_of(drain: Drain, why_end: str = "") -> DrainingServer:
    return DrainingServer(uvicorn.Config(lambda scope: None), drain, lambda: why_end)


def ticks(server: DrainingServer, count: int) -> list[bool]:
    async def run() -> list[bool]:
        return [await server.on_tick(number) for number in range(1, count + 1)]

    return asyncio.run(run())


def test_a_signal_ends_an_idle_server() -> None:
    server = server_of(Drain(30.0))
    assert ticks(server, TICKS_A_LOOK) == [False] * TICKS_A_LOOK
    server.handle_exit(signal.SIGTERM, None)
    assert ticks(server, 1) == [True]
    assert server.ended_by == ""


def test_a_server_that_can_not_go_on_drains(caplog: pytest.LogCaptureFixture) -> None:
    drain = Drain(30.0)
    server = server_of(drain, "lane llm was given up: exit code -9")
    assert ticks(server, TICKS_A_LOOK) == [*[False] * (TICKS_A_LOOK - 1), True]
    assert drain.has_begun
    assert server.ended_by == "lane llm was given up: exit code -9"
    assert "the server ends: lane llm was given up" in caplog.text
