"""App: a workflow bound to a server, with the verbs people know."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, Unpack, overload

from heddle.app.batch import PATIENCE_S, Inputs, answer_all, answer_all_async
from heddle.app.request_options import RequestOptions
from heddle.app.requests.arguments import patience_s
from heddle.runtime.events import Answer, RequestEvent
from heddle.runtime.handle import Handle
from heddle.workflow.workflow import Workflow


class Submits(Protocol):
    """What an app needs of a server."""

    def submit(self, workflow: Workflow, inputs: Inputs, **how: Unpack[RequestOptions]) -> Handle:
        """Admit a request; see Server.submit."""
        ...


@dataclass(frozen=True, slots=True)
class App:
    """A compiled workflow on a server; every verb takes the keywords of `Server.submit`.

    Example:
        app = server.app("oneshot")
        questions = ["Who founded Oak Mill?", "Who opened the Harbour Library?"]
        for answer in app.batch(questions, topk=1):
            print(answer.text, "-", answer.passages[0].title)
            # Ann Reed - mill
            # Tom Wells - library
    """

    server: Submits
    workflow: Workflow

    def submit(self, inputs: Inputs, **how: Unpack[RequestOptions]) -> Handle:
        """Admit a request and return its handle; see Server.submit."""
        return self.server.submit(self.workflow, inputs, **how)

    def invoke(self, inputs: Inputs, **how: Unpack[RequestOptions]) -> Answer:
        """Run a request and return its answer."""
        handle = self.submit(inputs, **how)
        try:
            return handle.result()
        except KeyboardInterrupt:
            handle.cancel_soon()
            raise

    async def ainvoke(self, inputs: Inputs, **how: Unpack[RequestOptions]) -> Answer:
        """Run a request and return its answer, from async code."""
        return await self.submit(inputs, **how)

    def stream(self, inputs: Inputs, **how: Unpack[RequestOptions]) -> Iterator[RequestEvent]:
        """Run a request and yield its events; the last one is Answer or RequestFailed.

        Example:
            from heddle import TokenDelta

            for event in server.app("oneshot").stream("Who founded Oak Mill?"):
                if isinstance(event, TokenDelta):
                    print(event.text, end="")
                    # Ann Reed
        """
        handle = self.submit(inputs, **how)
        try:
            yield from handle
        finally:
            if not handle.is_done:
                handle.cancel_soon()

    async def astream(
        self, inputs: Inputs, **how: Unpack[RequestOptions]
    ) -> AsyncIterator[RequestEvent]:
        """Run a request and yield its events, from async code."""
        handle = self.submit(inputs, **how)
        try:
            async for event in handle:
                yield event
        finally:
            if not handle.is_done:
                handle.cancel_soon()

    @overload
    def batch(
        self,
        many: Sequence[Inputs],
        *,
        return_exceptions: Literal[False] = False,
        **how: Unpack[RequestOptions],
    ) -> list[Answer]: ...

    @overload
    def batch(
        self,
        many: Sequence[Inputs],
        *,
        return_exceptions: Literal[True],
        **how: Unpack[RequestOptions],
    ) -> list[Answer | Exception]: ...

    def batch(
        self,
        many: Sequence[Inputs],
        *,
        return_exceptions: bool = False,
        **how: Unpack[RequestOptions],
    ) -> Sequence[Answer | Exception]:
        """Run many requests at once and return their answers in order.

        They are let in in order. While the server is full, the next one waits as long as Busy
        predicts, or until one of these has ended, and asks again; after `deadline_s` (600 s where
        there is none) it fails with that Busy. `deadline_s` itself counts from when it is let in.

        Args:
            many: the inputs of each request.
            return_exceptions: put a request's error in the place of its answer, and go on with
                the others.
            how: submit's keyword arguments, for every request.

        Raises: the error of the first request in order that failed; the others have ended then,
            answered or cancelled.
        """
        return answer_all(partial(self.submit, **how), many, _patience_s(how), return_exceptions)

    @overload
    async def abatch(
        self,
        many: Sequence[Inputs],
        *,
        return_exceptions: Literal[False] = False,
        **how: Unpack[RequestOptions],
    ) -> list[Answer]: ...

    @overload
    async def abatch(
        self,
        many: Sequence[Inputs],
        *,
        return_exceptions: Literal[True],
        **how: Unpack[RequestOptions],
    ) -> list[Answer | Exception]: ...

    async def abatch(
        self,
        many: Sequence[Inputs],
        *,
        return_exceptions: bool = False,
        **how: Unpack[RequestOptions],
    ) -> Sequence[Answer | Exception]:
        """Run many requests at once, from async code; see `batch`.

        Raises: the first error in time, as asyncio.gather does; unlike there, the others are
            cancelled and have ended then. Cancelling this cancels them all.
        """
        submit = partial(self.submit, **how)
        return await answer_all_async(submit, many, _patience_s(how), return_exceptions)


def _patience_s(how: Mapping[str, Any]) -> float:
    deadline_s = patience_s(how.get("deadline_s"))
    return PATIENCE_S if deadline_s is None else deadline_s
