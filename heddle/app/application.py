"""App: a workflow bound to a server, with the verbs people know."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from heddle.core.errors import Busy
from heddle.runtime.events import Answer, RequestEvent
from heddle.runtime.handle import Handle
from heddle.workflow.workflow import Workflow

Inputs = str | Mapping[str, object]


class Submits(Protocol):
    """What an app needs of a server."""

    def submit(self, *request: Any, **how: Any) -> Handle:  # noqa: ANN401
        """Admit a request (a workflow and its inputs); see Server.submit."""
        ...


@dataclass(frozen=True, slots=True)
class App:
    """A compiled workflow on a server. Every verb takes `submit`'s keyword arguments."""

    server: Submits
    workflow: Workflow

    def submit(self, inputs: Inputs, **how: Any) -> Handle:  # noqa: ANN401 - submit's arguments
        """Admit a request and return its handle; see Server.submit."""
        return self.server.submit(self.workflow, inputs, **how)

    def invoke(self, inputs: Inputs, **how: Any) -> Answer:  # noqa: ANN401
        """Run a request and return its answer."""
        handle = self.submit(inputs, **how)
        try:
            return handle.result()
        except KeyboardInterrupt:
            handle.cancel_soon()
            raise

    async def ainvoke(self, inputs: Inputs, **how: Any) -> Answer:  # noqa: ANN401
        """Run a request and return its answer, from async code."""
        return await self.submit(inputs, **how)

    def stream(self, inputs: Inputs, **how: Any) -> Iterator[RequestEvent]:  # noqa: ANN401
        """Run a request and yield its events; the last one is Answer or RequestFailed."""
        handle = self.submit(inputs, **how)
        try:
            yield from handle
        finally:
            if not handle.is_done:
                handle.cancel_soon()

    async def astream(self, inputs: Inputs, **how: Any) -> AsyncIterator[RequestEvent]:  # noqa: ANN401
        """Run a request and yield its events, from async code."""
        handle = self.submit(inputs, **how)
        try:
            async for event in handle:
                yield event
        finally:
            if not handle.is_done:
                handle.cancel_soon()

    def batch(self, many: Sequence[Inputs], **how: Any) -> list[Answer]:  # noqa: ANN401
        """Run many requests at once and return their answers in order.

        Raises: the first request's error; the others are cancelled.
        """
        handles: list[Handle] = []
        answers: dict[int, Answer] = {}
        try:
            for inputs in many:
                while True:
                    try:
                        handles.append(self.submit(inputs, **how))
                        break
                    except Busy:
                        # The server is full: the oldest request of ours makes room.
                        oldest = next((i for i in range(len(handles)) if i not in answers), None)
                        if oldest is None:
                            raise
                        answers[oldest] = handles[oldest].result()
            return [answers.get(i) or handle.result() for i, handle in enumerate(handles)]
        finally:
            for handle in handles:
                if not handle.is_done:
                    handle.cancel_soon()

    async def abatch(self, many: Sequence[Inputs], **how: Any) -> list[Answer]:  # noqa: ANN401
        """Run many requests at once, from async code."""
        return list(await asyncio.gather(*(self.ainvoke(inputs, **how) for inputs in many)))
