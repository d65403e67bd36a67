"""Front matter: the block of YAML that site generators put first. Settings, not text.

Two lines of dashes may also be rules around a text. They are front matter where each line between
them could be one of a YAML mapping, and one names a key.
"""

import re
from typing import Final, NamedTuple

BORDER: Final = "---"
_TITLE: Final = "title:"
_QUOTES: Final = ("'", '"')
_KEY: Final = re.compile(r"[\w\"'][^:]{0,60}:(?:\s|$)")
_ITEM: Final = re.compile(r"-(?:\s|$)")
_IN_LATER_LINES: Final = re.compile(r"[|>][-+\d]{0,2}(?:\s|$)")  # YAML's block scalars
# Blank, indented below a key, a comment, or the end of a list in brackets.
_OTHER: Final = re.compile(r"\s|$|#|[\]}]")


class FrontMatter(NamedTuple):
    """The title that it gives, "" = none, and where the text behind it begins."""

    title: str = ""
    end: int = 0


def front_matter(text: str) -> FrontMatter:
    """Return what a text begins with; its end is 0 where that is no front matter."""
    title, has_key, is_empty = "", False, True
    line, start = _line(text, 0)
    if line.rstrip() != BORDER:
        return FrontMatter()
    while start < len(text):
        line, start = _line(text, start)
        if line.rstrip() == BORDER:
            return FrontMatter(title, start) if has_key or is_empty else FrontMatter()
        is_empty = is_empty and not line.strip()
        if _KEY.match(line):
            has_key = True
            title = title or _title(line)
        elif not _OTHER.match(line) and not (has_key and _ITEM.match(line)):
            return FrontMatter()
    return FrontMatter()


def _line(text: str, start: int) -> tuple[str, int]:
    """Return a line, and where the next one begins."""
    end = text.find("\n", start)
    end = len(text) if end < 0 else end
    return text[start:end], min(end + 1, len(text))


def _title(line: str) -> str:
    """Return the words of a line `title: words`; "" = another key, or they stand in later lines."""
    if not line.startswith(_TITLE):
        return ""
    words = line.removeprefix(_TITLE).strip()
    if _IN_LATER_LINES.match(words):
        return ""
    is_quoted = len(words) > 1 and words[0] in _QUOTES and words[0] == words[-1]
    return words[1:-1] if is_quoted else words
