"""The HTTP clients of event loops: one for each loop, closed when the loop ends."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable

import httpx


class LoopClients:
    """Gives each event loop an HTTP client of its own: its connections can serve no other loop.

    A client is closed by its loop's `shutdown_asyncgens`, which asyncio.run, pytest and web
    servers call before they close a loop. The client of a loop that was closed without it is
    dropped when another loop asks for one, and Python's garbage collection closes its sockets.

    Thread-safe.

    Args:
        make: makes a client.
    """

    def __init__(self, make: Callable[[], httpx.AsyncClient]) -> None:
        self._make = make
        self._lock = threading.Lock()
        # A client holds its loop by way of its connections, so weak keys would never go.
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
        self._ends: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}

    async def client(self) -> httpx.AsyncClient:
        """Return the running loop's client; the first call makes it."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is not None:
            return client
        client = self._make()
        end = self._at_the_end_of(loop, client)
        with self._lock:
            self._drop_closed_loops()
            self._clients[loop], self._ends[loop] = client, end
        await anext(end)  # from now on the loop knows it; this waits for nothing
        return client

    async def _at_the_end_of(
        self, loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient
    ) -> AsyncGenerator[None, None]:
        """Close a client when the loop closes its asynchronous generators, of which this is one."""
        try:
            yield
        finally:
            with self._lock:
                self._drop(loop)
            await client.aclose()

    def _drop_closed_loops(self) -> None:
        for loop in [one for one in self._clients if one.is_closed()]:
            self._drop(loop)

    def _drop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._clients.pop(loop, None)
        self._ends.pop(loop, None)
