"""A page of the manuals, and the text that every page is brought to."""

import re
from dataclasses import dataclass
from typing import Final

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_LIKE_A_HEADING: Final = re.compile(r"^( {0,3})(#{1,6}[ \t])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ManualPage:
    """A page: its name, which is also its file's, and its Markdown or plain text."""

    name: str
    text: str


def without_addresses(text: str) -> str:
    """Return the text without the memory addresses that `repr` shows: each run has others."""
    return _ADDRESS.sub("", text)


def without_headings(text: str) -> str:
    """Return a docstring whose lines Markdown takes for no heading: "# comment" is one in code."""
    return _LIKE_A_HEADING.sub(r"\1\\\2", text)


def one_line(text: str) -> str:
    """Return the text with every run of white space as one blank."""
    return " ".join(text.split())
