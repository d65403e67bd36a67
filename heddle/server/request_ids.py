"""An id for each HTTP request: in its answer, and in each line of the log that it causes."""

import asyncio
import logging
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heddle.core.printing.log_lines import REQUEST_ID, JsonFormatter

HEADER: Final = "X-Request-ID"
PATH_CHARS: Final = 200  # of a path, in the log
BROKEN: Final = 500
_GIVEN: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_current: ContextVar[str] = ContextVar("request_id", default="")

log = logging.getLogger(__name__)


class RequestIds:
    """ASGI middleware that gives each request an id, sends it back, and logs the request's end.

    A client or proxy may give the id in `X-Request-ID`: up to 128 letters, digits and ". _ : -".
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; its answer has the id as a header."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope).get(HEADER, ""))
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        token = _current.set(request_id)
        clock = asyncio.get_running_loop().time
        started_s = clock()
        has_failed = False
        try:
            await self._app(scope, receive, sent)
        except Exception:
            has_failed, status = True, status or BROKEN
            raise
        finally:
            path = ascii(scope["path"][:PATH_CHARS])[1:-1]
            taken_s = clock() - started_s
            log.info("%s %s: %s in %.3f s", scope["method"], path, status or "no answer", taken_s)
            if not has_failed:  # else who answers for a bug, and logs it, is outside of this
                _current.reset(token)


def current_request_id() -> str:
    """Return the id of the request that is worked on; "" = none is."""
    return _current.get()


@contextmanager
def request_ids_in_log() -> Iterator[None]:
    """Put the id of the request that is worked on into each line of the log, in this block."""
    before = [(handler, handler.formatter) for handler in logging.getLogger().handlers]
    for handler, formatter in before:
        handler.setFormatter(_WithRequestId(formatter or logging.Formatter()))
    try:
        yield
    finally:
        for handler, formatter in before:
            handler.setFormatter(formatter)


class _WithRequestId(logging.Formatter):
    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        request_id = _current.get()
        setattr(record, REQUEST_ID, request_id)
        line = self._inner.format(record)
        if isinstance(self._inner, JsonFormatter):
            return line
        return f"{line} [request {request_id}]" if request_id else line


def _request_id(given: str) -> str:
    return given if _GIVEN.fullmatch(given) else uuid.uuid4().hex
