"""A server starts with the first call that needs it, and ends behind the last one."""

import asyncio
import threading
from dataclasses import dataclass, field

import pytest

from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.server.mcp.server_on_demand import ServersOnDemand


@dataclass
class Standin:
    """In the place of a server: what counts here is when it is started and closed."""

    config: ServerConfig
    is_closed: bool = False

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Starter:
    started: list[Standin] = field(default_factory=list)
    problems: list[Exception] = field(default_factory=list)
    may_start: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)

    def __call__(self, config: ServerConfig) -> Standin:
        self.begun.set()
        assert self.may_start.wait(10)
        if self.problems:
            raise self.problems.pop()
        self.started.append(Standin(config))
        return self.started[-1]


@pytest.fixture
def start() -> Starter:
    starter = Starter()
    starter.may_start.set()
    return starter


async def once(server: object) -> Standin:
    async with server as found:
        return found


def test_calls_at_once_share_one_server_that_is_closed_at_the_end(start: Starter) -> None:
    async def use() -> None:
        servers = ServersOnDemand(ServerConfig(index="corpus"), start)
        assert start.started == []
        used = await asyncio.gather(once(servers.searching()), once(servers.answering()))
        assert used == [start.started[0]] * 2
        assert not used[0].is_closed
        await servers.close()

    asyncio.run(use())
    assert [one.is_closed for one in start.started] == [True]


def test_a_start_that_fails_is_tried_again(start: Starter) -> None:
    async def use() -> None:
        servers = ServersOnDemand(ServerConfig(index="corpus"), start)
        start.problems.append(ConfigError("the corpus is away"))
        with pytest.raises(ConfigError, match="is away"):
            await once(servers.searching())
        assert await once(servers.searching()) is start.started[0]
        await servers.close()

    asyncio.run(use())


def test_a_call_that_is_cancelled_loses_no_server(start: Starter) -> None:
    start.may_start.clear()

    async def use() -> None:
        servers = ServersOnDemand(ServerConfig(index="corpus"), start)
        call = asyncio.create_task(once(servers.searching()))
        await asyncio.to_thread(start.begun.wait, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        start.may_start.set()
        await servers.close()

    asyncio.run(use())
    assert [one.is_closed for one in start.started] == [True]


def test_searches_do_not_wait_for_the_model_that_writes(start: Starter) -> None:
    async def use() -> None:
        servers = ServersOnDemand(ServerConfig(generator="model", index="corpus"), start)
        async with servers.searching() as searching:
            assert searching.config.llm is None
            answering = await once(servers.answering())
            assert answering.config.llm == "model"
            assert not searching.is_closed, "a search is under way"
            assert await once(servers.searching()) is answering
        await servers.close()
        assert searching.is_closed
        assert answering.is_closed

    asyncio.run(use())
    assert len(start.started) == 2
