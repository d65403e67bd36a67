"""A file as a client sends it: multipart/form-data, bounded while it is read."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from heddle.core.errors import Cancelled, InputError
from heddle.corpus.parsing.parse_file import KNOWN_SUFFIXES, parser_for

FILE_BYTES_MAX: Final = 32 << 20
FORM_BYTES_MAX: Final = 64 << 10  # of everything but the file
FIELDS_MAX: Final = 16
NAME_BYTES_MAX: Final = 200
UPLOAD_S: Final = 300.0
PURPOSES: Final = ("assistants", "user_data")
KNOWN_FIELDS: Final = frozenset({"file", "purpose"})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that has come whole, with its name and its purpose; "" = it has none."""

    name: str
    purpose: str
    content: bytes


async def read_file(request: Request, *, needs_purpose: bool = True) -> SentFile:
    """Read and check a form with a file.

    Args:
        request: its body is the form.
        needs_purpose: whether the form has to say what the file is for.

    Raises:
        HTTPException: it is no form (415), larger than is taken (413, at the first byte too many),
            took too long (408), or comes from a page of another site (403).
        InputError: a part is missing or can't be used; the message names the field.
        Cancelled: the client went away while it sent.
    """
    _check_origin(request)
    form = _Form()
    parser = _parser(request, form)
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > FILE_BYTES_MAX + FORM_BYTES_MAX:
        raise _too_large()
    try:
        async with asyncio.timeout(UPLOAD_S):
            async for part in request.stream():
                parser.write(part)
        parser.finalize()
    except TimeoutError as error:
        message = f"the file took longer than {UPLOAD_S:g} s to come"
        raise HTTPException(408, message, {"Connection": "close"}) from error
    except FormParserError as error:
        raise InputError(f"body: this is no multipart/form-data: {error}") from error
    except ClientDisconnect as error:
        raise Cancelled("the client went away") from error
    return form.file(needs_purpose=needs_purpose)


def checked_name(given: str) -> str:
    """Return a file's name, if it can be used.

    Raises:
        InputError: it is empty, too long, a path, has control characters, or ends with no suffix
            of a format that is read.
    """
    if not given:
        raise InputError("file: it has no name: send one, such as notes.md")
    if len(given.encode()) > NAME_BYTES_MAX:
        raise InputError(f"file: its name has more than {NAME_BYTES_MAX} bytes: shorten it")
    if not given.isprintable():
        raise InputError(f"file: its name has control characters: {given!r:.80}")
    if any(mark in given for mark in "/\\") or given.startswith(".."):
        raise InputError(f"file: its name {given!r:.80} is a path: send the name alone")
    if parser_for(Path(given)) is None:
        known = " ".join(KNOWN_SUFFIXES)
        raise InputError(f"file: {given!r:.80} is of no type that is read; there are {known}")
    return given


@dataclass(slots=True)
class _Form:
    """The parts of a form, as they come. Mutates: all of it."""

    content: bytearray | None = None
    name: str = ""
    fields: dict[str, bytearray] = field(default_factory=dict)
    has_ended: bool = False
    _target: bytearray = field(default_factory=bytearray)
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _headers: dict[bytes, bytes] = field(default_factory=dict)
    _form_bytes: int = 0

    def callbacks(self) -> dict[str, Callable[..., None]]:
        """Return what the parser calls."""
        return {
            "on_part_begin": self._headers.clear,
            "on_header_begin": self._on_header_begin,
            "on_header_field": lambda data, start, end: self._grow(self._header, data[start:end]),
            "on_header_value": lambda data, start, end: self._grow(self._value, data[start:end]),
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers,
            "on_part_data": lambda data, start, end: self._grow(self._target, data[start:end]),
            "on_end": self._on_end,
        }

    def file(self, *, needs_purpose: bool) -> SentFile:
        """Return the file.

        Raises:
            InputError: a part is missing or can't be used.
        """
        if not self.has_ended:
            raise InputError("body: it ends before its last boundary: send the whole form")
        if self.content is None:
            raise InputError("file: the form has no part `file` with a filename: add one")
        name = checked_name(self.name)
        if not self.content:
            raise InputError(f"file: {name!r} is empty: send one with text in it")
        ignored = sorted(self.fields.keys() - KNOWN_FIELDS)
        for one in ignored:
            if one.startswith("expires_after"):
                raise InputError("expires_after: files stay until they are deleted: leave it out")
        if ignored:
            log.info("fields that are not known are ignored: %s", ", ".join(map(repr, ignored)))
        purpose = bytes(self.fields.get("purpose", b"")).decode("utf-8", "replace")
        if purpose not in PURPOSES and (needs_purpose or purpose):
            raise InputError(f"purpose must be one of {', '.join(PURPOSES)}, got {purpose!r:.40}")
        return SentFile(name, purpose, bytes(self.content))

    def _on_header_begin(self) -> None:
        self._header.clear()
        self._value.clear()

    def _on_header_end(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)

    def _on_headers(self) -> None:
        options = parse_options_header(self._headers.get(b"content-disposition", b""))[1]
        name, filename = _text(options, b"name"), options.get(b"filename")
        if filename is not None:
            if name != "file" or self.content is not None:
                raise InputError(f"{name:.40}: send one file, in the part `file`")
            self.name, self.content = _text(options, b"filename"), bytearray()
            self._target = self.content
            return
        if name in self.fields or len(self.fields) >= FIELDS_MAX:
            raise InputError(f"{name:.40}: a form has each field once, and at most {FIELDS_MAX}")
        self._target = self.fields[name] = bytearray()

    def _on_end(self) -> None:
        self.has_ended = True

    def _grow(self, target: bytearray, more: bytes) -> None:
        if target is self.content:
            if len(target) + len(more) > FILE_BYTES_MAX:
                raise _too_large()
        else:
            self._form_bytes += len(more)
            if self._form_bytes > FORM_BYTES_MAX:
                message = f"the form has more than {FORM_BYTES_MAX:,} bytes beside its file"
                raise HTTPException(413, message, {"Connection": "close"})
        target += more


def _parser(request: Request, form: _Form) -> MultipartParser:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise HTTPException(
            415, "file: send a form: Content-Type: multipart/form-data with a boundary"
        )
    callbacks: Any = form.callbacks()
    try:
        return MultipartParser(boundary, callbacks)
    except FormParserError as error:
        raise InputError(f"body: this is no multipart/form-data: {error}") from error


def _text(options: dict[bytes, bytes], key: bytes) -> str:
    try:
        return options.get(key, b"").decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{key.decode()}: it is no UTF-8: {error}") from error


def _too_large() -> HTTPException:
    return HTTPException(
        413,
        f"file: it is larger than {FILE_BYTES_MAX:,} bytes: split it, or use heddle index",
        {"Connection": "close"},
    )


def _check_origin(request: Request) -> None:
    """Refuse a form that another site's page sends: a browser sends it without a question."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    if origin.partition("://")[2] != request.headers.get("host", ""):
        raise HTTPException(403, "this form comes from a page of another site")
