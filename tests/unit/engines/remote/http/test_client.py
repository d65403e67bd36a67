"""Requests to one server, over connections that are kept for the next ones."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from heddle.engines.remote.address import Address
from heddle.engines.remote.http.client import HttpClient
from tests.helpers.fake_endpoint import FakeEndpoint, Step, plain

WAIT_S = 20.0


class Sink:
    """Takes a response in; `on_last` is called when its last byte has come."""

    is_satisfied = False

    def __init__(self, on_last: Callable[[], None] = lambda: None) -> None:
        self.body, self._on_last = b"", on_last

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_end(self) -> None:
        self._on_last()


def test_a_request_that_is_left_at_its_end_leaves_the_connection_to_the_next() -> None:
    async def both(url: str) -> Sink:
        client = HttpClient(Address.of(url, "--model"))
        may_begin = asyncio.get_running_loop().create_future()
        found = Sink()

        def last() -> None:
            may_begin.set_result(None)  # the next one runs before the first hears that it is left
            first.cancel()

        async def follow() -> None:
            await may_begin
            await client.send("GET", "/models", None, found)

        first = asyncio.create_task(client.send("GET", "/models", None, Sink(last)))
        await asyncio.wait_for(follow(), WAIT_S)
        with pytest.raises(asyncio.CancelledError):
            await first
        client.close()
        return found

    with FakeEndpoint(others={"/models": plain(200, {"data": []})}) as server:
        assert asyncio.run(both(server.url)).body == b'{"data": []}'
        assert server.connections == 1


def test_a_request_that_is_left_before_its_end_hangs_up() -> None:
    async def leave(server: FakeEndpoint) -> None:
        client = HttpClient(Address.of(server.url, "--model"))
        task = asyncio.create_task(client.send("GET", "/models", None, Sink()))
        assert await asyncio.to_thread(server.hanging.wait, WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.hung_up.wait, WAIT_S)

    with FakeEndpoint(others={"/models": (Step.HANG,)}) as server:
        asyncio.run(leave(server))
