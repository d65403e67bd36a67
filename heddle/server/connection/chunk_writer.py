"""Writes the pieces of a stream straight to their connection.

Each token of a stream is a piece. h11 frames it in two lines, behind as many checks as a whole
response needs.
"""

from collections.abc import Mapping
from typing import Any, Final

from starlette.types import Message
from uvicorn.protocols.http.h11_impl import RequestResponseCycle

BODILESS: Final = frozenset({204, 304})
LENGTH: Final = b"content-length"


class ChunkWriter:
    """The ASGI `send` of one response, for a connection of uvicorn's.

    The head, the end and what has to wait for a slow client go uvicorn's way: h11 frames each
    piece by itself, so it may be left out of some.

    Args:
        cycle: uvicorn's state of the response.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._is_chunked = False

    async def __call__(self, message: Message) -> None:
        """Send a part of the response."""
        cycle = self._cycle
        if self._is_chunked and message.get("more_body") and _takes_more(cycle):
            if body := message.get("body"):  # an empty chunk is the end of a stream
                cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
            return
        await cycle.send(message)  # type: ignore[arg-type]
        if message["type"] == "http.response.start":
            self._is_chunked = _is_chunked(cycle.scope, message)


def _takes_more(cycle: RequestResponseCycle) -> bool:
    return not (cycle.flow.write_paused or cycle.disconnected or cycle.response_complete)


def _is_chunked(request: Mapping[str, Any], start: Message) -> bool:
    """Whether a response is sent in chunks: of unknown length, by HTTP/1.1. (RFC 9112 §6)"""
    may_be = request["http_version"] == "1.1" and request["method"] != "HEAD"
    has_length = any(name.lower() == LENGTH for name, _ in start.get("headers", ()))
    return may_be and start["status"] not in BODILESS and not has_length
