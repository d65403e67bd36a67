"""A JSON object of a data file whose fields are checked as they are read."""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import NoReturn, TypeGuard

from heddle.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Row:
    """A JSON object and where it stands, for messages: "FILE, line 3".

    Every getter raises InputError with the place and the field where the value isn't as asked.
    """

    where: str
    fields: Mapping[str, object]

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self.fields.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field that is a string; `default` stands in where it is missing."""
        value = self.fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            self.refuse(name, "must be a string")
        return value

    def filled_text(self, name: str) -> str:
        """Return a field that is a string with more than white space in it."""
        value = self.text(name).strip()
        if not value:
            self.refuse(name, "is empty")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field that is a list of strings."""
        value = self.fields.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(name, "must be a list of strings")
        return tuple(value)

    def number(self, name: str) -> float:
        """Return a field that is a number."""
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(name, "must be a number")
        return value

    def flag(self, name: str) -> bool:
        """Return a field that is true or false; false where it is missing."""
        value = self.fields.get(name, False)
        if not isinstance(value, bool):
            self.refuse(name, "must be true or false")
        return value

    def row(self, name: str) -> "Row":
        """Return a field that is an object."""
        value = self.fields.get(name)
        if not isinstance(value, dict):
            self.refuse(name, "must be an object")
        return Row(f"{self.where}, field {name!r}", value)

    def rows(self, name: str) -> tuple["Row", ...]:
        """Return a field that is a list of objects."""
        value = self.fields.get(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.refuse(name, "must be a list of objects")
        return tuple(
            Row(f"{self.where}, field {name!r}[{index}]", item) for index, item in enumerate(value)
        )

    def pairs(self, name: str) -> tuple[tuple[int, int], ...]:
        """Return a field that is a list of pairs of whole numbers."""
        value = self.fields.get(name)
        if not isinstance(value, list) or not all(_is_pair(item) for item in value):
            self.refuse(name, "must be a list of pairs of whole numbers")
        return tuple((first, second) for first, second in value)

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raise InputError about a field."""
        shown = json.dumps(self.fields.get(name), ensure_ascii=False, default=str)
        cut = shown if len(shown) <= 60 else f"{shown[:59]}…"
        raise InputError(f"{self.where}: field {name!r} {why}, is {cut}")


def json_lines(path: Path) -> Iterator[Row]:
    """Give the objects of a JSONL file, plain or gzipped; blank lines are skipped.

    Raises:
        InputError: the file can't be read, or a line is no JSON object; names the line.
    """
    number = 0
    try:
        with _open(path) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield _row(json_value(line, where), where)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, after line {number}: damaged gzip file: {error}") from error
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from error


def json_document(path: Path) -> object:
    """Return the value of a whole JSON file, plain or gzipped.

    Raises:
        InputError: the file can't be read or is no JSON.
    """
    try:
        with _open(path) as lines:
            content = b"".join(lines)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: damaged gzip file: {error}") from error
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from error
    return json_value(content, str(path))


def json_value(content: bytes, where: str) -> object:
    """Return what JSON text stands for.

    Raises:
        InputError: it is not UTF-8 or not JSON.
    """
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8; JSON has to be") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON: {error}") from error


def rows_of(values: Sequence[object], where: str) -> Iterator[Row]:
    """Give the objects of a list; `where` names the list."""
    for index, value in enumerate(values):
        yield _row(value, f"{where}, item {index}")


def _row(value: object, where: str) -> Row:
    if not isinstance(value, dict):
        raise InputError(f"{where}: must be a JSON object, is a {type(value).__name__}")
    return Row(where, value)


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_whole, value))
