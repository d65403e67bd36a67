"""The first door of a server with keys: each request needs one with the right scope."""

import asyncio
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from heddle.server.keys.access import HELD
from heddle.server.keys.api_key import KeyScope
from heddle.server.keys.key_ring import HeldKey, KeyRing
from heddle.server.wire import encode_json, retry_headers, status_error_json

# The page's files hold nothing of the corpus, and a browser loads them before it has a key.
PAGE: Final = frozenset({"/", "/assets/page.js", "/assets/page.css", "/assets/icon.svg"})
OPEN: Final = frozenset({"/health", "/ready", "/version", "/docs"}) | PAGE
# None = any key. A path that isn't here needs the scope admin, so that none is open by mistake.
NEEDED: Final[Mapping[str, KeyScope | None]] = {
    "/openapi.json": None,
    "/v1/ask": KeyScope.ASK,
    "/v1/chat/completions": KeyScope.ASK,
    "/v1/completions": KeyScope.ASK,
    "/v1/models": None,
    "/v1/models/{model:path}": None,
    "/v1/search": KeyScope.ASK,
    "/v1/rerank": KeyScope.ASK,
    "/v2/rerank": KeyScope.ASK,
    "/rerank": KeyScope.ASK,
    "/v1/workflows": KeyScope.ASK,
    "/v1/explain": KeyScope.ASK,
    "/v1/live": KeyScope.ADMIN,
    "/v1/runs/{run}": KeyScope.ASK,
    "/v1/embeddings": KeyScope.EMBED,
    "/v1/documents": KeyScope.WRITE,
    "/v1/documents/file": KeyScope.WRITE,
    "/v1/files": KeyScope.WRITE,
    "/v1/files/{file_id}": KeyScope.WRITE,
    "/v1/files/{file_id}/content": KeyScope.WRITE,
    "/v1/vector_stores": KeyScope.WRITE,
    "/v1/vector_stores/{store_id}": KeyScope.WRITE,
    "/v1/vector_stores/{store_id}/search": KeyScope.ASK,
    "/v1/vector_stores/{store_id}/files": KeyScope.WRITE,
    "/v1/vector_stores/{store_id}/files/{file_id}": KeyScope.WRITE,
    "/v1/vector_stores/{store_id}/files/{file_id}/content": KeyScope.WRITE,
    "/v1/vector_stores/{store_id}/file_batches": KeyScope.WRITE,
    "/v1/vector_stores/{store_id}/file_batches/{batch_id}": KeyScope.WRITE,
    "/v1/vector_stores/{store_id}/file_batches/{batch_id}/cancel": KeyScope.WRITE,
    "/v1/vector_stores/{store_id}/file_batches/{batch_id}/files": KeyScope.WRITE,
    "/metrics": KeyScope.ADMIN,
}
_PATTERNS: Final = tuple(
    (compile_path(path)[0], scope) for path, scope in NEEDED.items() if "{" in path
)
HEADER_WORDS: Final = "send the header Authorization: Bearer KEY"
CHALLENGE: Final = 'Bearer realm="heddle"'

log = logging.getLogger(__name__)


class KeyGate:
    """ASGI middleware that takes a request's key from `Authorization: Bearer KEY`, and no other
    place: URLs stand in logs and histories.

    A request without a known key gets 401, one whose key lacks the scope 403, one beyond a limit
    429. The others pass, with the key's entry in their scope.

    Args:
        app: takes the others.
        ring: the keys.
    """

    def __init__(self, app: ASGIApp, ring: KeyRing) -> None:
        self._app, self._ring = app, ring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "websocket":  # there is none
            await WebSocketClose()(scope, receive, send)
        elif scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
        else:
            await self._checked(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = sent_key(Headers(scope=scope))
        held = self._ring.find(sent) if sent else None
        if held is None:
            log.info("a request has %s", "a key that isn't known" if sent else "no key")
            await _unknown(is_sent=bool(sent))(scope, receive, send)
            return
        log.info("the key is %s", held.key.name)
        refusal = _refusal(held, scope["path"], asyncio.get_running_loop().time())
        if refusal is None:
            scope[HELD] = held
        await (refusal or self._app)(scope, receive, send)


def sent_key(headers: Headers) -> str:
    """Return the key that a request's headers hold; "" = none, or several."""
    given = headers.getlist("authorization")
    kind, _, key = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return key.strip() if kind.lower() == "bearer" else ""


def needed_scope(path: str) -> KeyScope | None:
    """Return the scope that a path needs; None = any key will do."""
    if path in NEEDED:
        return NEEDED[path]
    found = (scope for pattern, scope in _PATTERNS if pattern.match(path))
    return next(found, KeyScope.ADMIN)


def _refusal(held: HeldKey, path: str, now_s: float) -> Response | None:
    """Return why a known key isn't enough; None = the request passes, and is counted."""
    needed = needed_scope(path)
    wait_s, limit = held.admit(now_s)
    if limit:
        amount = int(getattr(held.key, limit))
        message = f"{limit}: this key may use {amount:,}; come again in {wait_s:.1f} s"
        return _answer(HTTPStatus.TOO_MANY_REQUESTS, message, retry_headers(wait_s))
    if needed is None or needed in held.key.scopes:
        return None
    message = f"this key lacks the scope {needed.value!r}: use one that has it"
    return _answer(HTTPStatus.FORBIDDEN, message, {})


def _unknown(*, is_sent: bool) -> Response:
    challenge = f'{CHALLENGE}, error="invalid_token"' if is_sent else CHALLENGE
    begin = "this server doesn't know the key" if is_sent else "this server asks for a key"
    headers = {"WWW-Authenticate": challenge}
    return _answer(HTTPStatus.UNAUTHORIZED, f"{begin}: {HEADER_WORDS}", headers)


def _answer(status: HTTPStatus, message: str, headers: Mapping[str, str]) -> Response:
    return Response(
        encode_json(status_error_json(status, message)), status, headers, "application/json"
    )
