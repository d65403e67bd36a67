"""A bound on the requests that a server works on at once."""

from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from heddle.core.errors import Busy
from heddle.server.wire import encode_json, error_headers, error_json, error_status

UNCOUNTED: Final = frozenset({"/health", "/metrics"})
WAIT_S: Final = 1.0  # nobody knows when a client has read its answer


class ConcurrencyLimit:
    """ASGI middleware that answers a request beyond the limit with 503, before its body is read.

    A request counts until its answer is sent, a stream until its last event. What tells how the
    server is passes always: it is asked when there is too much of the rest.

    Args:
        app: takes the others.
        requests_max: under way at once.
    """

    def __init__(self, app: ASGIApp, requests_max: int) -> None:
        self._app, self._requests_max = app, requests_max
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or scope["path"] in UNCOUNTED:
            await self._app(scope, receive, send)
        elif self._under_way >= self._requests_max:
            await self._refusal()(scope, receive, send)
        else:
            self._under_way += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._under_way -= 1

    def _refusal(self) -> Response:
        busy = Busy(
            f"{self._requests_max} HTTP requests are under way, as many as "
            "heddle serve --limit-concurrency allows",
            wait_s=WAIT_S,
        )
        return Response(
            encode_json(error_json(busy)),
            error_status(busy),
            error_headers(busy),
            "application/json",
        )
