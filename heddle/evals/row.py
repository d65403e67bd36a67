"""A JSON object of a data file whose fields are checked as they are read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeGuard

from heddle.core.errors import InputError
from heddle.evals.file_lines import file_lines


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

    def whole(self, name: str) -> int:
        """Return a field that is a whole number."""
        value = self.fields.get(name)
        if not _is_whole(value):
            self.refuse(name, "must be a whole number")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a field that is true or false; `default` where it is missing."""
        value = self.fields.get(name, default)
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

    def titled(self, name: str) -> tuple[tuple[str, object], ...]:
        """Return a field that is a list of pairs of a title and a value."""
        value = self.fields.get(name)
        if not isinstance(value, list) or not all(_is_titled(item) for item in value):
            self.refuse(name, "must be a list of pairs that begin with a title")
        return tuple((title, item) for title, item in value)

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raise InputError about a field."""
        shown = json.dumps(self.fields.get(name), ensure_ascii=False, default=str)
        cut = shown if len(shown) <= 60 else f"{shown[:59]}…"
        raise InputError(f"{self.where}: field {name!r} {why}, is {cut}")


def json_lines(path: Path) -> Iterator[Row]:
    """Give the objects of a JSONL file, plain or gzipped; blank lines are skipped.

    Raises:
        InputError: the file can't be read or is too large, or a line is no JSON object; names
            the line.
    """
    for number, line in file_lines(path):
        if line.strip():
            where = f"{path}, line {number}"
            yield _row(json_value(line, where), where)


def json_document(path: Path) -> object:
    """Return the value of a whole JSON file, plain or gzipped.

    Raises:
        InputError: the file can't be read, is too large or is no JSON.
    """
    return json_value(b"".join(line for _, line in file_lines(path)), str(path))


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


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_whole, value))


def _is_titled(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
