"""A request's events as server-sent events, until the request ends or its client disconnects."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from heddle.runtime.events import RequestEvent
from heddle.runtime.handle import Handle
from heddle.server.wire import encode_json, event_json

STREAMED: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {}}}}
"""What the description of a route says of its stream."""


class EventStream(Response):
    """Sends every event of a handle as it comes; a client that leaves cancels the request.

    Args:
        handle: the request's.
        on_event: called with each event before it is sent.
        timeline: whether the answer has its timeline.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        handle: Handle,
        on_event: Callable[[RequestEvent], None],
        *,
        timeline: bool = False,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._handle, self._on_event, self._timeline = handle, on_event, timeline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, as ASGI wants it."""
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with cancelled_with_client(self._handle, receive):
            async for event in self._handle:
                self._on_event(event)
                name, data = event_json(event, timeline=self._timeline)
                frame = f"event: {name}\ndata: ".encode() + encode_json(data) + b"\n\n"
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def cancelled_with_client(handle: Handle, receive: Receive) -> AsyncIterator[None]:
    """Cancel the request when its client disconnects, and when the block is left early."""
    watcher = asyncio.create_task(cancel_on_disconnect(handle.cancel_soon, receive))
    try:
        yield
    finally:
        watcher.cancel()
        if not handle.is_done:
            handle.cancel_soon()


async def cancel_on_disconnect(cancel: Callable[[], object], receive: Receive) -> None:
    """Wait until the client disconnects, then call `cancel`."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancel()
