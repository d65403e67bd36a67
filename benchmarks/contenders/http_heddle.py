"""Heddle's HTTP front before a fake LLM: `create_app` as `heddle serve` has it, without a runtime.

The LLM's thread stands for the runtime's: requests are handed over to it, and tokens come from it.
"""

import asyncio
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

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
from heddle.server.bounded_connection import BoundedConnection
from heddle.server.http import create_app
from heddle.workflow.workflow import Workflow

MODEL = "fake"


class PacedServer:
    """The part of a Server that the front needs; each request gets one answer at a fixed pace."""

    config = ServerConfig(generator=MODEL)
    store = None
    generator = SimpleNamespace(name=MODEL)
    plan = SimpleNamespace(remote=SimpleNamespace(generator=None))
    embedder_name = ""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.thread = RuntimeThread("fake-llm")
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
        handle = Handle(lambda: None)
        self._schedule(handle, asyncio.get_running_loop().time(), 0)
        return handle

    def _schedule(self, handle: Handle, started_s: float, number: int) -> None:
        """Have token `number` written at its moment; moments are counted from the start."""
        moment_s = started_s + self.pace.moment_s(number)
        self.thread.event_loop.call_at(moment_s, self._write, handle, started_s, number)

    def _write(self, handle: Handle, started_s: float, number: int) -> None:
        handle.push(TokenDelta("answer", WORD))
        if number + 1 < self.pace.tokens:
            self._schedule(handle, started_s, number + 1)
        else:
            handle.push(self.answer)


def main() -> None:
    """Serve at the pace that the command line says."""
    server = PacedServer(Pace.of_arguments(*sys.argv[1:]))
    server.thread.start()
    serve_app(create_app(cast("Server", server), {}), http=BoundedConnection, lifespan="off")


if __name__ == "__main__":
    main()
