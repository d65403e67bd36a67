"""A reply as a stream of chunks, begun when there is something to send."""

from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from heddle.runtime.events import RequestEvent, RequestFailed
from heddle.runtime.handle import ENDS, Handle
from heddle.server.event_stream import cancelled_with_client
from heddle.server.openai.reply import Reply


class ChunkStream(Response):
    """Sends a reply's chunks as they come; a client that leaves cancels the request.

    What fails before the first token is no stream yet: it is raised, and gets the status of its
    error, so that clients raise what they raise without a stream.

    Args:
        handle: the request's.
        reply: makes the chunks.
        on_event: called with each event before it is sent.
    """

    media_type = "text/event-stream"

    def __init__(
        self, handle: Handle, reply: Reply, on_event: Callable[[RequestEvent], None]
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._handle, self._reply, self._on_event = handle, reply, on_event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, as ASGI wants it.

        Raises:
            HeddleError: the request failed before its first token.
        """
        has_begun, last = False, b""
        async with cancelled_with_client(self._handle, receive):
            async for event in self._handle:
                self._on_event(event)
                if isinstance(event, RequestFailed) and not has_begun:
                    raise event.error
                body = b"".join(self._reply.frames(event))
                if not body:
                    continue
                if not has_begun:
                    await self._begin(send)
                    has_begun = True
                if isinstance(event, ENDS):
                    last = body
                else:
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": last})

    async def _begin(self, send: Send) -> None:
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
