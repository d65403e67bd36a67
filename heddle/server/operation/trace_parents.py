"""ASGI middleware that takes a request's place in its caller's trace from its headers."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from heddle.exporters.otel.trace_parent import TraceParent, under
from heddle.server.request_ids import current_request_id


class TraceParents:
    """Makes the span that W3C's `traceparent` names the parent of what a request submits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, in its trace."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with under(TraceParent.of(Headers(scope=scope), current_request_id)):
            await self._app(scope, receive, send)
