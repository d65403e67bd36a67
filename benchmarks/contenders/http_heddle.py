"""Heddle's HTTP front before a fake LLM: `create_app` as `heddle serve` has it, without a runtime.

The LLM's thread stands for the runtime's: requests are handed over to it, and tokens come from it.
As in the runtime, one turn of its loop hands over all tokens that are due.
"""

import asyncio
import sys
from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from benchmarks.contenders.pace import WORD, Pace
from benchmarks.contenders.uvicorn_process import serve_app
from heddle.app.runtime_thread import RuntimeThread
from heddle.app.server import Server
from heddle.app.server_config import ServerConfig
from heddle.core.results import FinishReason
from heddle.core.tasks import Optimizations
from heddle.runtime.events import Answer, TokenDelta
from heddle.runtime.handle import Handle
from heddle.runtime.receipt import ReceiptDraft
from heddle.runtime.turn_end import turn
from heddle.server.bounded_connection import BoundedConnection
from heddle.server.http import create_app
from heddle.workflow.workflow import Workflow

MODEL = "fake"


class DueToken(NamedTuple):
    """The next token of an answer, and when it comes, by the loop's clock [s].

    They are in the order in which they come; `answer` orders those of one moment.
    """

    moment_s: float
    answer: int
    started_s: float
    number: int
    handle: Handle


class PacedServer:
    """The part of a Server that the front needs; each request gets one answer at a fixed pace."""

    config = ServerConfig(generator=MODEL)
    store = None
    generator = SimpleNamespace(name=MODEL)
    plan = SimpleNamespace(remote=SimpleNamespace(generator=None), generator=generator)
    embedder_name = ""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.thread = RuntimeThread("fake-llm")
        self._answers = count()
        self._due: list[DueToken] = []  # a heap
        self._timer: asyncio.TimerHandle | None = None
        receipt = ReceiptDraft(prompt_tokens=16, generated_tokens=pace.tokens)
        self.answer = Answer(
            pace.text,
            (),
            {},
            receipt.close(Optimizations.EXACT, pace.length_s, "exact"),
            finish_reason=FinishReason.STOP,
        )

    def submit(self, workflow: Workflow, inputs: Mapping[str, Any], **options: Any) -> Handle:
        """Begin an answer on the LLM's thread; return its handle."""
        del workflow, inputs, options  # every answer is the same
        return self.thread.call(self._begin)

    def _begin(self) -> Handle:
        handle, started_s = Handle(lambda: None), self.thread.event_loop.time()
        moment_s = started_s + self.pace.moment_s(0)
        heappush(self._due, DueToken(moment_s, next(self._answers), started_s, 0, handle))
        self._arm()
        return handle

    def _arm(self) -> None:
        """Have the next turn come when its first token is due."""
        if self._timer is not None:
            self._timer.cancel()
        first = self._due[0] if self._due else None
        loop = self.thread.event_loop
        self._timer = None if first is None else loop.call_at(first.moment_s, self._turn)

    def _turn(self) -> None:
        now_s = self.thread.event_loop.time()
        with turn():
            while self._due and self._due[0].moment_s <= now_s:
                self._write(heappop(self._due))
        self._arm()

    def _write(self, token: DueToken) -> None:
        """Write a token; moments are counted from the start of its answer."""
        token.handle.push(TokenDelta("answer", WORD))
        number = token.number + 1
        if number < self.pace.tokens:
            moment_s = token.started_s + self.pace.moment_s(number)
            heappush(self._due, token._replace(moment_s=moment_s, number=number))
        else:
            token.handle.push(self.answer)


def main() -> None:
    """Serve at the pace that the command line says."""
    server = PacedServer(Pace.of_arguments(*sys.argv[1:]))
    server.thread.start()
    serve_app(create_app(cast("Server", server), {}), http=BoundedConnection, lifespan="off")


if __name__ == "__main__":
    main()
