"""JSONL, plain or gzipped: one JSON object a line.

It has `text`, and perhaps `id`, `title`, `tenant` and `metadata`, an object of texts, numbers,
booleans, or lists of them.
"""

import gzip
import json
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from heddle.core.errors import InputError
from heddle.core.search_scope import metadata_of
from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import check_clean, clean
from heddle.corpus.parsing.file_reading import DAMAGED_GZIP, file_errors, open_plain
from heddle.corpus.parsing.limits import ParseLimits


def parse_jsonl(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give a document for each line that is not blank; other fields are ignored.

    A line without an id gets the file's path and its number; one without a title, the file's
    name. The file is streamed: documents before a bad line have been given when it is met, and
    those behind it are not.

    Raises: InputError: the file is missing or unreadable, or a line is bad; names the line.
    """
    for number, line in _lines(path, limits):
        if line.strip():
            yield _document(line, f"{path}, line {number}", path, number)


def _lines(path: Path, limits: ParseLimits) -> Iterator[tuple[int, bytes]]:
    number = 0
    bytes_read = 0
    with file_errors(path), open_plain(path) as file:
        while line := _read_line(file, path, number + 1, limits):
            number += 1
            bytes_read += len(line)
            if bytes_read > limits.stream_bytes_max:
                raise InputError(
                    f"{path}, line {number}: over the limit of"
                    f" {limits.stream_bytes_max / 1e9:g} GB a file; split it"
                )
            if number > limits.lines_max:
                raise InputError(f"{path}: over the limit of {limits.lines_max:,} lines; split it")
            # Windows editors begin a file with a byte order mark.
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _read_line(
    file: gzip.GzipFile | BufferedReader, path: Path, number: int, limits: ParseLimits
) -> bytes:
    try:
        line = file.readline(limits.line_bytes_max + 1)
    except DAMAGED_GZIP as error:
        raise InputError(f"{path}, line {number}: damaged gzip file: {error}") from error
    if len(line) > limits.line_bytes_max:
        raise InputError(
            f"{path}, line {number}: over the limit of {limits.line_bytes_max / 1e6:.0f} MB a line"
        )
    return line


def _document(line: bytes, where: str, path: Path, number: int) -> Document:
    fields = _fields(line, where)
    title = fields.get("title")
    text = fields.get("text")
    document_id = fields.get("id")
    tenant = fields.get("tenant")
    metadata = fields.get("metadata")
    if not isinstance(text, str):
        raise InputError(f'{where}: needs a field "text" that is a string')
    if title is not None and not isinstance(title, str):
        raise InputError(f'{where}: "title" must be a string')
    if isinstance(document_id, bool) or not isinstance(document_id, str | int | None):
        raise InputError(f'{where}: "id" must be a string or a whole number')
    if not isinstance(tenant, str | None):  # 0 is no tenant, and not everybody either
        raise InputError(f'{where}: "tenant" must be a string')
    check_clean(tenant or "", f'{where}: "tenant"')
    name = path.name.split(".jsonl")[0].split(".ndjson")[0]
    return Document(
        clean(str(document_id)) if document_id not in (None, "") else f"{path}#{number}",
        " ".join(clean(title or "").split()) or name,
        clean(text),
        str(path),
        tenant=tenant or "",
        metadata=metadata_of({} if metadata is None else metadata, f"{where}: metadata"),
    )


def _fields(line: bytes, where: str) -> dict[str, object]:
    try:
        fields = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8; JSONL has to be") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise InputError(f"{where}: must be a JSON object, is a {type(fields).__name__}")
    return fields
