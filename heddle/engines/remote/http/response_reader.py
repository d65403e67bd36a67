"""Reads one HTTP/1.1 response from bytes as they come; does no input or output itself."""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, Protocol

from heddle.engines.remote.problem import RemoteProblem, Trouble

HEAD_BYTES_MAX: Final = 64 << 10
CHUNK_LINE_BYTES_MAX: Final = 1 << 10
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: |\r|$)")
_HEX: Final = re.compile(rb"[0-9A-Fa-f]{1,8}")


class ResponseSink(Protocol):
    """Takes a response in, piece by piece."""

    @property
    def is_satisfied(self) -> bool:
        """Whether the caller has all that it wants, though the response may go on."""
        ...

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Take status and headers; the names of headers are in lower case."""
        ...

    def on_body(self, data: bytes) -> None:
        """Take some bytes of the body."""
        ...

    def on_end(self) -> None:
        """Take in that the body is complete."""
        ...


class _Part(Enum):
    HEAD = "head"
    LENGTH = "length"
    CHUNK_LINE = "chunk line"
    CHUNK = "chunk"
    CHUNK_END = "chunk end"
    TRAILER = "trailer"
    UNTIL_CLOSE = "until close"
    ENDED = "ended"


class ResponseReader:
    """One response; `feed` hands its parts to the sink.

    Interim responses (1xx) are skipped. A sink may raise RemoteProblem, which `feed` passes on.
    """

    def __init__(self, sink: ResponseSink) -> None:
        self._sink = sink
        self._part = _Part.HEAD
        self._buffer = b""
        self._left = 0
        self._keeps_open = False

    @property
    def has_begun(self) -> bool:
        """Whether any byte of the response has come."""
        return self._part is not _Part.HEAD or bool(self._buffer)

    @property
    def has_ended(self) -> bool:
        """Whether the response is complete."""
        return self._part is _Part.ENDED

    @property
    def may_reuse(self) -> bool:
        """Whether the connection can carry another request."""
        return self.has_ended and self._keeps_open and not self._buffer

    def feed(self, data: bytes) -> None:
        """Take in what has arrived.

        Raises:
            RemoteProblem: it is no HTTP response, or one without an end in sight.
        """
        buffer = self._buffer + data if self._buffer else data
        self._buffer = b""
        while buffer and self._part is not _Part.ENDED:
            rest = self._take(buffer)
            if rest is None:
                self._buffer = buffer
                return
            buffer = rest
        self._buffer = buffer

    def close(self) -> None:
        """Take in that the other side has closed the connection.

        Raises:
            RemoteProblem: the response was not complete.
        """
        self._keeps_open = False
        if self._part is _Part.UNTIL_CLOSE:
            self._end()
        elif not self.has_ended:
            when = "before its answer" if not self.has_begun else "in the middle of its answer"
            raise RemoteProblem(Trouble.CUT, f"closed the connection {when}")

    def _take(self, buffer: bytes) -> bytes | None:
        """Read one part; returns what follows it, None where the part is not complete yet."""
        match self._part:
            case _Part.HEAD:
                return self._take_head(buffer)
            case _Part.LENGTH | _Part.CHUNK:
                return self._take_counted(buffer)
            case _Part.CHUNK_LINE:
                return self._take_chunk_line(buffer)
            case _Part.CHUNK_END:
                return self._take_chunk_end(buffer)
            case _Part.TRAILER:
                return self._take_trailer(buffer)
            case _:
                self._sink.on_body(buffer)
                return b""

    def _take_head(self, buffer: bytes) -> bytes | None:
        end = buffer.find(b"\r\n\r\n")
        if end > HEAD_BYTES_MAX or (end < 0 and len(buffer) > HEAD_BYTES_MAX):
            raise _no_http("its headers are too long")
        if end < 0:
            if not b"HTTP/1.".startswith(buffer[:7]):
                raise _no_http("it doesn't answer in HTTP/1.1")
            return None
        status_line, *lines = buffer[:end].split(b"\r\n")
        match = _STATUS_LINE.match(status_line)
        if match is None:
            raise _no_http("it doesn't answer in HTTP/1.1")
        status, headers = int(match[1]), _headers(lines)
        if status >= 200:
            self._begin_body(status, headers, is_old=status_line.startswith(b"HTTP/1.0"))
        return buffer[end + 4 :]

    def _begin_body(self, status: int, headers: Mapping[str, str], *, is_old: bool) -> None:
        connection = headers.get("connection", "").lower()
        self._keeps_open = "close" not in connection and not is_old
        length = headers.get("content-length")
        coding = headers.get("transfer-encoding", "").lower()
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise RemoteProblem(Trouble.NO_API, "compresses its answers though none was asked for")
        self._part = _Part.UNTIL_CLOSE
        if coding:
            if coding != "chunked":
                raise _no_http("it uses an unknown transfer encoding")
            self._part = _Part.CHUNK_LINE
        elif length is not None:
            if not length.isascii() or not length.isdigit() or len(length) > 15:
                raise _no_http("its Content-Length is no number")
            self._left, self._part = int(length), _Part.LENGTH
        self._sink.on_head(status, headers)
        if status in (204, 304) or (self._part is _Part.LENGTH and not self._left):
            self._end()

    def _take_counted(self, buffer: bytes) -> bytes:
        data, rest = buffer[: self._left], buffer[self._left :]
        self._left -= len(data)
        if not self._left and self._part is _Part.CHUNK:
            self._part = _Part.CHUNK_END
            self._sink.on_body(data)
        elif not self._left:
            self._sink.on_body(data)
            self._end()
        else:
            self._sink.on_body(data)
        return rest

    def _take_chunk_line(self, buffer: bytes) -> bytes | None:
        end = buffer.find(b"\r\n")
        if end < 0 or end > CHUNK_LINE_BYTES_MAX:
            if len(buffer) > CHUNK_LINE_BYTES_MAX:
                raise _no_http("a chunk of its answer has no length")
            return None
        match = _HEX.fullmatch(buffer[:end].split(b";", 1)[0].strip())
        if match is None:
            raise _no_http("a chunk of its answer has no length")
        self._left = int(match[0], 16)
        self._part = _Part.CHUNK if self._left else _Part.TRAILER
        return buffer[end + 2 :]

    def _take_chunk_end(self, buffer: bytes) -> bytes | None:
        if len(buffer) < 2:
            return None
        if not buffer.startswith(b"\r\n"):
            raise _no_http("a chunk of its answer is longer than it says")
        self._part = _Part.CHUNK_LINE
        return buffer[2:]

    def _take_trailer(self, buffer: bytes) -> bytes | None:
        if buffer.startswith(b"\r\n"):
            self._end()
            return buffer[2:]
        end = buffer.find(b"\r\n")
        if end < 0:
            if len(buffer) > HEAD_BYTES_MAX:
                raise _no_http("its trailers are too long")
            return None
        return buffer[end + 2 :]  # no trailer means anything here

    def _end(self) -> None:
        self._part = _Part.ENDED
        self._sink.on_end()


def _headers(lines: list[bytes]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon:
            found[name.strip().lower().decode("latin-1")] = value.strip().decode("latin-1")
    return found


def _no_http(words: str) -> RemoteProblem:
    return RemoteProblem(Trouble.NO_API, f"is no API of models: {words}")
