"""Bounds on the requests that a server works on and on the bodies that it holds at once."""

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heddle.core.errors import Busy
from heddle.server.wire import (
    Json,
    encode_json,
    error_headers,
    error_json,
    error_status,
    status_error_json,
)

UNCOUNTED: Final = frozenset({"/health", "/metrics", "/ready", "/v1/live", "/version"})
WAIT_S: Final = 1.0  # a guess: when a client will have read its answer is unknown
BODIES_BYTES_MAX: Final = 256 << 20  # of requests whose bodies are still coming
HEADERS_MAX: Final = 100
HEAD_BYTES_MAX: Final = 32 << 10
TOO_LARGE: Final = 431  # RFC 6585 §5


class ConcurrencyLimit:
    """ASGI middleware that answers a request beyond the limit with 503, and long heads with 431.

    A request counts from when it is whole until its answer is sent, a stream until its last event:
    clients that send slowly take no place from others. Requests for the server's own state pass
    always: they come when there are too many of the rest.

    Args:
        app: takes the others.
        requests_max: under way at once.
    """

    def __init__(self, app: ASGIApp, requests_max: int) -> None:
        self._app, self._requests_max = app, requests_max
        self._under_way = 0
        self._body_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif not _is_head_short(scope):
            await _head_refusal()(scope, receive, send)
        elif scope["path"] in UNCOUNTED:
            await self._app(scope, receive, send)
        else:
            await self._counted(scope, receive, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_whole = not _has_body(scope)
        held_bytes = 0

        async def received() -> Message:
            """Take the next part of the body; raises Busy where there is no room for it."""
            nonlocal is_whole, held_bytes
            message = await receive()
            if is_whole or message["type"] != "http.request":
                return message
            size = len(message.get("body", b""))
            if self._body_bytes + size > BODIES_BYTES_MAX:
                raise self._busy()
            held_bytes += size
            self._body_bytes += size
            if not message.get("more_body", False):
                self._begin()
                is_whole = True
            return message

        try:
            if is_whole:
                self._begin()
        except Busy as busy:
            await _answer(error_status(busy), error_json(busy), error_headers(busy))(
                scope, receive, send
            )
            return
        try:
            await self._app(scope, received, send)
        finally:
            self._body_bytes -= held_bytes
            self._under_way -= is_whole

    def _begin(self) -> None:
        if self._under_way >= self._requests_max:
            raise self._busy()
        self._under_way += 1

    def _busy(self) -> Busy:
        return Busy(
            f"{self._requests_max} HTTP requests are under way, as many as "
            "heddle serve --limit-concurrency allows",
            wait_s=WAIT_S,
        )


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _is_head_short(scope: Scope) -> bool:
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers) + len(scope["query_string"])
    return len(headers) <= HEADERS_MAX and size + len(scope["path"]) <= HEAD_BYTES_MAX


def _head_refusal() -> Response:
    message = (
        f"the request has more than {HEADERS_MAX} headers, or more than {HEAD_BYTES_MAX:,} bytes "
        "before its body: send fewer"
    )
    return _answer(TOO_LARGE, status_error_json(TOO_LARGE, message), {"Connection": "close"})


def _answer(status: int, body: Json, headers: dict[str, str]) -> Response:
    return Response(encode_json(body), status, headers, "application/json")
