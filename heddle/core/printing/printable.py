"""Text of others as a terminal and a log may show it: none of it is a command or a line break.

A name or a document can hold any character. Escape sequences would colour, move or answer for the
terminal, and a line break in a name would begin a line that looks like one of ours.
"""

import re
from typing import Final

_KEPT: Final = "\n\t"
_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
# Line separators, and marks that turn the direction of what follows.
_IN_LINE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable_text(text: str) -> str:
    """Return a text with its control characters escaped, but line breaks and tabs."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in _KEPT else _escaped(found), text)


def printable_line(text: str) -> str:
    """Return a name or a title as one line, with what could end it or turn it escaped."""
    return _IN_LINE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
