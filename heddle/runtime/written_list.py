"""A list as a model writes it: whole, or item by item while it is written."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

ITEMS_MAX = 32  # a runaway list of sub-questions must not become a runaway loop


def as_lines(text: str) -> tuple[str, ...]:
    """Return a generation's text as a list: a JSON list, JSON strings or plain text by line."""
    stripped = text.strip()
    if stripped.startswith("["):
        items = _json_or_none(stripped)
        if isinstance(items, list):
            return tuple(text for item in items if (text := _text(item)))[:ITEMS_MAX]
    lines = (_line(line) for line in stripped.splitlines())
    return tuple(line for line in lines if line)[:ITEMS_MAX]


@dataclass(slots=True)
class WrittenList:
    """The items of a text that is being written, each as soon as its end is there.

    Where the text ends as it began, they are the first of `as_lines`: a JSON list that is never
    closed gives other lines than items.

    Mutates: `add` appends to `items`.
    """

    items: list[str] = field(default_factory=list)
    _rest: str = ""  # of the text, behind the last whole item
    _is_json: bool | None = None  # None = nothing but space was written

    def add(self, text: str) -> bool:
        """Take in what was written next; return whether an item ended with it."""
        self._rest += text
        if self._is_json is None:
            self._rest = self._rest.lstrip()
            if not self._rest:
                return False
            self._is_json = self._rest.startswith("[")
            self._rest = self._rest.removeprefix("[")
        known = len(self.items)
        found = self._json_items() if self._is_json else self._lines()
        self.items += [item for item in found if item][: ITEMS_MAX - known]
        return len(self.items) > known

    def _lines(self) -> list[str]:
        lines = (self._rest + "\0").splitlines()  # the last one hasn't ended, empty or not
        self._rest = lines.pop().removesuffix("\0")
        return [_line(line) for line in lines]

    def _json_items(self) -> Iterator[str]:
        while True:
            rest = self._rest.lstrip(" \t\r\n,")
            try:
                value, end = json.JSONDecoder().raw_decode(rest)
            except (ValueError, RecursionError):
                return  # its end isn't there, or the list's is, or it is nested too deeply
            if not isinstance(value, str) and end == len(rest):
                return  # a number may go on
            self._rest = rest[end:]
            yield _text(value)


def _text(item: object) -> str:
    """Return an item as text. JSON can escape half a character, which no output can hold."""
    return str(item).strip().encode(errors="replace").decode()


def _line(line: str) -> str:
    line = line.strip().rstrip(",").lstrip("-*• ").strip()
    number, dot, rest = line.partition(".")
    if dot and number.isdigit():
        line = rest.strip()
    if line.startswith('"'):
        value = _json_or_none(line)
        line = _text(value) if isinstance(value, str) else line.strip('"')
    return "" if line in "[]" else line


def _json_or_none(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # a model may write brackets without end
        return None
