"""Requests of a server that stops: new ones are refused, and those cut short get an error."""

import asyncio
from collections.abc import MutableMapping
from typing import Any, Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heddle.server.concurrency_limit import UNCOUNTED
from heddle.server.drain import Drain
from heddle.server.wire import Json, encode_json, error_body

STOPPING: Final = 503
_EVENTS: Final = b"text/event-stream"
_MESSAGE: Final = "the server stops: ask it again when it runs, or ask another one"
_BODY: Final[Json] = error_body("Stopping", _MESSAGE, None, "server_is_overloaded")


class Draining:
    """ASGI middleware that refuses requests once the server stops, and ends those that are cut.

    A request that is cut gets 503 where its answer hasn't begun, and a last `error` event where it
    is a stream. Requests for the server's own state pass always.

    Args:
        app: takes the others.
        drain: says whether the server stops, and counts what is under way.
    """

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app, self._drain = app, drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it once the server stops."""
        if scope["type"] != "http" or scope["path"] in UNCOUNTED:
            await self._app(scope, receive, send)
        elif self._drain.has_begun:
            await stopping()(scope, receive, send)
        else:
            await self._passed(scope, receive, send)

    async def _passed(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = _Sent(send)
        is_cut = False

        def cut() -> None:
            nonlocal is_cut
            is_cut = True

        work = asyncio.ensure_future(self._app(scope, receive, sent))
        self._drain.add(work, cut)
        try:
            await work
        except asyncio.CancelledError:
            if not is_cut:  # the connection itself is closed
                raise
            await sent.tell(scope, receive)


class _Sent:
    """What an application has sent of its answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._has_begun = self._has_ended = self._is_stream = False

    async def __call__(self, message: Message) -> None:
        await self._send(message)
        if message["type"] == "http.response.start":
            self._has_begun = True
            self._is_stream = _is_stream(message)
        elif message["type"] == "http.response.body":
            self._has_ended = not message.get("more_body", False)

    async def tell(self, scope: Scope, receive: Receive) -> None:
        """Send the end of a request that is cut; the rest of a plain answer can't be had."""
        if not self._has_begun:
            await stopping()(scope, receive, self._send)
        elif self._is_stream and not self._has_ended:
            event = encode_json({**_BODY, "status": STOPPING})
            frame = b"event: error\ndata: " + event + b"\n\n"
            await self._send({"type": "http.response.body", "body": frame})


def stopping() -> Response:
    """Return the refusal of a server that stops."""
    headers = {"Connection": "close", "Retry-After": "1"}
    return Response(encode_json(_BODY), STOPPING, headers, "application/json")


def _is_stream(start: MutableMapping[str, Any]) -> bool:
    return any(name == b"content-type" and _EVENTS in value for name, value in start["headers"])
