"""Where sentences end in a text, and the sentence around some of its characters."""

import re
from collections.abc import Iterator
from typing import Final

SENTENCE_CHARS_MAX: Final = 400  # of what is shown around a quote; tables have no stops

_SENTENCE_END = re.compile(
    r"""[.!?…]["'”’)\]]*(?=\s+[^a-z\s])"""  # a stop, and what follows has no small letter
    r"""|[。！？][”’」』）]*"""
    r"""|\n(?=[ \t]*(?:[-*+•]|\d+[.)])\s)"""  # an item of a list begins
    r"""|\n(?=[ \t]*--?[A-Za-z])"""  # an option of a command begins
)
_ABBREVIATION = re.compile(
    r"(?:\b[A-Z]|\b(?:Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|Mt|No|Vol|Fig|Eq|vs|cf|al|etc|e\.g|i\.e))\.$"
)
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where sentences end in text[start:end], each as an index of `text`."""
    for found in _SENTENCE_END.finditer(text, start, end):
        before = text[max(start, found.start() - 5) : found.start() + 1]
        if not _ABBREVIATION.search(before):
            yield found.end()


def sentence_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the sentences that hold text[start:end], without the white space around them.

    A sentence also ends with its paragraph. One of more than `SENTENCE_CHARS_MAX` characters is
    cut between words, with the characters asked for in its middle.

    Raises:
        ValueError: [start, end) is no range of the text.
    """
    if not 0 <= start <= end <= len(text):
        raise ValueError(f"[{start}, {end}) is no range of a text of {len(text)} characters")
    cuts = sorted(
        {
            *sentence_ends(text, 0, len(text)),
            *(found.end() for found in _PARAGRAPH_END.finditer(text)),
        }
    )
    first = max((cut for cut in cuts if cut <= start), default=0)
    last = min((cut for cut in cuts if cut >= max(end, first + 1)), default=len(text))
    first, last = _stripped(text, first, last)
    # A range of white space alone lies outside of every sentence.
    return _shortened(text, min(first, start), max(last, end), start, end)


def _shortened(text: str, first: int, last: int, start: int, end: int) -> tuple[int, int]:
    """Return [first, last) cut to the allowed length around [start, end)."""
    if last - first <= SENTENCE_CHARS_MAX:
        return first, last
    room = max(0, SENTENCE_CHARS_MAX - (end - start)) // 2
    left, right = max(first, start - room), min(last, end + room)
    if left > first:
        space = text.find(" ", left, start)
        left = space + 1 if space >= 0 else left
    if right < last:
        space = text.rfind(" ", end, right)
        right = space if space >= 0 else right
    return _stripped(text, left, right)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
