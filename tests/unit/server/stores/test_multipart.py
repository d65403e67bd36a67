"""A form with a file, as it comes: whole, cut short, hostile, too large."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from heddle.core.errors import Cancelled, HeddleError, InputError
from heddle.server.stores import multipart
from heddle.server.stores.multipart import (
    FIELDS_MAX,
    FILE_BYTES_MAX,
    FORM_BYTES_MAX,
    SentFile,
    read_file,
)

BOUNDARY = "limit"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"
PURPOSE = ('name="purpose"', b"assistants")
NOTES = ('name="file"; filename="notes.md"', b"# Notes\r\n--limi\r\n")


def form(*parts: tuple[str, bytes]) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; "
    written = (head.encode() + name.encode() + b"\r\n\r\n" + value for name, value in parts)
    return b"\r\n".join((*written, f"--{BOUNDARY}--\r\n".encode()))


def read(body: bytes, step: int = 1 << 16, **headers: str) -> SentFile:
    pieces = [body[at : at + step] for at in range(0, len(body), step)] or [b""]
    return asyncio.run(_read(iter_pieces(pieces), headers))


async def iter_pieces(pieces: list[bytes]) -> AsyncIterator[dict[str, object]]:
    for number, piece in enumerate(pieces):
        more = number + 1 < len(pieces)
        yield {"type": "http.request", "body": piece, "more_body": more}
    yield {"type": "http.disconnect"}


async def _read(messages: AsyncIterator[dict[str, object]], headers: dict[str, str]) -> SentFile:
    given = {"content-type": TYPE, "host": "127.0.0.1:8321", **headers}
    scope = {
        "type": "http",
        "method": "POST",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    return await read_file(Request(scope, messages.__anext__))


@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_a_file_comes_in_pieces_of_any_size(step: int):
    sent = read(form(PURPOSE, NOTES), step)
    assert sent == SentFile("notes.md", "assistants", b"# Notes\r\n--limi\r\n")


def named(name: str) -> bytes:
    return form(PURPOSE, (f'name="file"; filename="{name}"', b"text"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (form(PURPOSE), "file: the form has no part"),
        (form(NOTES), "purpose must be one of"),
        (form(('name="purpose"', b"fine-tune"), NOTES), "purpose must be one of"),
        (form(PURPOSE, ('name="file"; filename="a.md"', b"")), "file: 'a.md' is empty"),
        (form(PURPOSE, NOTES, NOTES), "file: send one file"),
        (form(PURPOSE, ('name="other"; filename="a.md"', b"a")), "other: send one file"),
        (form(PURPOSE, PURPOSE, NOTES), "purpose: a form has each field once"),
        (form(*((f'name="f{n}"', b"") for n in range(FIELDS_MAX + 1)), NOTES), "at most 16"),
        (form(('name="expires_after[seconds]"', b"9"), PURPOSE, NOTES), "expires_after: files"),
        (form(PURPOSE, NOTES)[:-8], "body: it ends before"),
        (b"", "body: it ends before"),
        (b"no form at all", "body: this is no multipart"),
        (named(""), "file: it has no name"),
        (named("../../etc/passwd.txt"), "is a path"),
        (named("..txt"), "is a path"),
        (named("a\\b.txt"), "is a path"),
        (named("a\x1b[2J.txt"), "has control characters"),
        (named("a\u202etxt.md"), "has control characters"),
        (named("n" * 200 + ".md"), "more than 200 bytes"),
        (named("run.exe"), "is of no type that is read; there are .txt"),
        (named("run").replace(b'"run"', b'"\xff.md"'), "filename: it is no UTF-8"),
    ],
)
def test_a_bad_form_is_refused_by_the_field(body: bytes, message: str):
    with pytest.raises(InputError, match=message):
        read(body)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/json"}, 415),
        ({"content-type": "multipart/form-data"}, 415),
        ({"content-length": str(FILE_BYTES_MAX * 2)}, 413),
        ({"origin": "https://evil.example"}, 403),
    ],
)
def test_a_form_is_refused_before_it_is_read(headers: dict[str, str], status: int):
    with pytest.raises(HTTPException) as refused:
        read(form(PURPOSE, NOTES), **headers)
    assert refused.value.status_code == status
    assert read(form(PURPOSE, NOTES), origin="http://127.0.0.1:8321").name == "notes.md"


def test_one_byte_too_many_ends_the_reading(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(multipart, "FILE_BYTES_MAX", 1000)
    read(form(PURPOSE, (NOTES[0], b"a" * 1000)))
    taken = 0

    async def endless() -> AsyncIterator[dict[str, object]]:
        nonlocal taken
        yield {"type": "http.request", "body": form(PURPOSE, NOTES)[:-20], "more_body": True}
        while True:
            taken += 1
            yield {"type": "http.request", "body": b"a" * 100, "more_body": True}

    with pytest.raises(HTTPException) as refused:
        asyncio.run(_read(endless(), {}))
    assert (refused.value.status_code, taken <= 11) == (413, True)
    with pytest.raises(HTTPException, match="beside its file"):
        read(form(('name="note"', b"a" * (FORM_BYTES_MAX + 1))))


def test_a_client_that_leaves_is_no_error_of_ours():
    async def leaving() -> AsyncIterator[dict[str, object]]:
        yield {"type": "http.request", "body": b"--limit\r\n", "more_body": True}
        yield {"type": "http.disconnect"}

    with pytest.raises(Cancelled) as left:
        asyncio.run(_read(leaving(), {}))
    assert isinstance(left.value, HeddleError)
