"""ASGI middleware that takes what a call says of its run from its headers."""

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from heddle.app.requests.call_identity import CallIdentity, calling
from heddle.core.errors import InputError
from heddle.server.wire import encode_json, error_json, error_status


class CallIdentities:
    """Gives the requests of a submission the run and node that its HTTP headers name.

    Headers that can't be used end the request with 400; a request without them is its own run.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the identity that it names."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            identity = CallIdentity.of_headers(Headers(scope=scope))
        except InputError as error:
            body = encode_json(error_json(error))
            reply = Response(body, error_status(error), None, "application/json")
            await reply(scope, receive, send)
            return
        with calling(identity):
            await self._app(scope, receive, send)
