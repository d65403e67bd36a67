"""Servers that start when a call first needs them: a client may be open all day and ask nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from heddle.app.server import Server
from heddle.app.server_config import ServerConfig
from heddle.engines.reading.installed import EXTRACT

StartServer = Callable[[ServerConfig], Server]


class ServerOnDemand:
    """One server, started by the first call that uses it. A start that fails is tried again.

    Args:
        config: of the server.
        start: starts one; it blocks.
    """

    def __init__(self, config: ServerConfig, start: StartServer) -> None:
        self._config = config
        self._start = start
        self._starting: asyncio.Task[Server] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._users = 0
        self._is_retired = False

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[Server]:
        """Yield the server, started; it stays open until the block ends."""
        self._users += 1
        try:
            # A call that is cancelled must not lose a server that is starting: nothing would
            # close it.
            yield await asyncio.shield(self._begun())
        finally:
            self._users -= 1
            if self._is_retired:
                self.retire()

    def retire(self) -> None:
        """Close it once the calls that use it have ended."""
        self._is_retired = True
        if not self._users:
            self._end()

    async def close(self) -> None:
        """Close it, if it was started."""
        await self._end()

    def _begun(self) -> asyncio.Task[Server]:
        task = self._starting
        if task is None or (task.done() and _started(task) is None):
            task = asyncio.create_task(asyncio.to_thread(self._start, self._config))
            self._starting = task
        return task

    def _end(self) -> asyncio.Task[None]:
        """Begin to close it, in a task that a cancelled call can't take along."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._closed())
        return self._ending

    async def _closed(self) -> None:
        if self._starting is None:
            return
        await asyncio.wait([self._starting])
        server = _started(self._starting)
        if server is not None:
            await asyncio.to_thread(server.close)


class ServersOnDemand:
    """The server that searches, and the one that answers.

    They are one, unless an LLM answers: a search must not wait for its weights. Once the LLM is
    there, its server searches as well, and the other one is closed.

    Args:
        config: of the server that answers.
        start: starts a server; it blocks.
    """

    def __init__(self, config: ServerConfig, start: StartServer) -> None:
        self._answering = ServerOnDemand(config, start)
        self._searching = self._answering
        if config.llm is not None:
            self._searching = ServerOnDemand(replace(config, generator=EXTRACT), start)

    @asynccontextmanager
    async def searching(self) -> AsyncIterator[Server]:
        """Yield the server that searches."""
        async with self._searching.in_use() as server:
            yield server

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[Server]:
        """Yield the server that answers."""
        async with self._answering.in_use() as server:
            if self._searching is not self._answering:
                searching, self._searching = self._searching, self._answering
                searching.retire()
            yield server

    async def close(self) -> None:
        """Close both."""
        for one in {self._searching, self._answering}:
            await one.close()


def _started(task: asyncio.Task[Server]) -> Server | None:
    """Return what a task that is done has started."""
    return None if task.cancelled() or task.exception() is not None else task.result()
