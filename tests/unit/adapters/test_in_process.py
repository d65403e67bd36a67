"""A server of this process: a request that is left before it was admitted ends, too."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from heddle.adapters.in_process import InProcess
from heddle.adapters.values import EmbedCall, RerankCall, SearchCall
from heddle.runtime.handle import Handle

WAIT_S = 20.0


class Slow:
    """A server that admits each request only when the test lets it."""

    def __init__(self) -> None:
        self.begun, self.may_admit = threading.Event(), threading.Event()
        self.ended = threading.Event()

    def _handle(self, *_: object, **__: object) -> Handle:
        self.begun.set()
        assert self.may_admit.wait(WAIT_S)
        return Handle(self.ended.set)

    submit_search = submit_rerank = _handle

    def submit_embedding(self, *_: object, **__: object) -> Future[Any]:
        self._handle()
        future = Future[Any]()
        future.add_done_callback(lambda _: self.ended.set())
        return future


CALLS: list[Callable[[InProcess], Any]] = [
    lambda engine: engine.asearch(SearchCall("Who?")),
    lambda engine: engine.arerank(RerankCall("Who?", ["Ada."])),
    lambda engine: engine.aembed(EmbedCall(["Who?"])),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_is_cancelled_while_it_is_admitted_ends_its_request(
    call: Callable[[InProcess], Any],
) -> None:
    server = Slow()

    async def leave() -> None:
        task = asyncio.ensure_future(call(InProcess(server)))  # type: ignore[arg-type]
        assert await asyncio.to_thread(server.begun.wait, WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not server.ended.is_set()
        server.may_admit.set()

    asyncio.run(leave())
    assert server.ended.is_set(), "asyncio.run waits for its threads"
