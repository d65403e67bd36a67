"""A call that its client cancels leaves nothing behind."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from heddle.app.server_config import ServerConfig
from heddle.corpus.place import CorpusPlace
from heddle.runtime.handle import Handle
from heddle.server.mcp.arguments import AskArguments, SearchArguments
from heddle.server.mcp.corpus_tools import CorpusTools
from heddle.server.mcp.server_on_demand import ServersOnDemand
from heddle.workflow.presets import preset

WAIT_S = 10.0


class SlowToAdmit:
    """In the place of a server whose runtime's thread is at something else."""

    def __init__(self) -> None:
        self.is_asked, self.may_admit = threading.Event(), threading.Event()
        self.is_cancelled = threading.Event()

    def submit(self, *request: Any, **how: Any) -> Handle:
        self.is_asked.set()
        assert self.may_admit.wait(WAIT_S)
        return Handle(self.is_cancelled.set)

    submit_search = submit

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        (CorpusTools.search, SearchArguments(query="Who?")),
        (CorpusTools.ask, AskArguments(question="Who?")),
    ],
)
def test_a_call_that_is_cancelled_while_it_is_admitted_ends_its_request(
    tool: Any, asked: Any, tmp_path: Path
) -> None:
    server = SlowToAdmit()
    servers = ServersOnDemand(ServerConfig(), lambda config: server)  # type: ignore[arg-type, return-value]
    tools = CorpusTools(CorpusPlace.of(tmp_path), servers, preset("quote").compile())

    async def use() -> None:
        call = asyncio.create_task(tool(tools, asked))
        await asyncio.to_thread(server.is_asked.wait, WAIT_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        server.may_admit.set()
        assert await asyncio.to_thread(server.is_cancelled.wait, WAIT_S)

    asyncio.run(use())
