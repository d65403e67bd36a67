"""The lines of a passage that have most of a query's words."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from heddle.core.texts.content_words import WORD, content_words, stem

CUT: Final = "…"
BEGINS: Final = re.compile(r"\s{2}|[-*+|#>`~=]|\d+[.)]\s")  # lists, tables, code and the like
WIDTH_MIN: Final = 20
GOES_ON: Final = 50  # characters of a line that was broken for its length, at least


def best_lines(text: str, query: str, *, width: int, lines_max: int) -> list[str]:
    """Return a text in lines, or of a long one the neighbouring lines that fit the query best.

    Those have most of its words; of equal ones the first. A cut text has an ellipsis there.

    Args:
        text: the passage.
        query: what was searched for.
        width: characters of a line with its ellipses; 20 where it is less.
        lines_max: how many lines, at least 1.
    """
    room = max(WIDTH_MIN, width) - 2 * len(CUT)  # one line may be cut at both ends
    lines = [part for paragraph in _paragraphs(text) for part in textwrap.wrap(paragraph, room)]
    if len(lines) <= lines_max:
        return lines
    wanted = {stem(word) for word in content_words(query)}
    found = [{stem(word) for word in WORD.findall(line)} & wanted for line in lines]
    starts = range(len(lines) - lines_max + 1)
    first = max(starts, key=lambda start: (_score(found[start : start + lines_max]), -start))
    shown = lines[first : first + lines_max]
    if first > 0:
        shown[0] = f"{CUT}{shown[0]}"
    if first + lines_max < len(lines):
        shown[-1] = f"{shown[-1]}{CUT}"
    return shown


def _paragraphs(text: str) -> Iterator[str]:
    """Yield each line, joined with those that only go on with its sentence."""
    held: list[str] = []
    for line in text.splitlines():
        words = " ".join(line.split())
        goes_on = bool(held and words) and len(held[-1]) >= GOES_ON and not BEGINS.match(line)
        if held and not goes_on:
            yield " ".join(held)
            held = []
        if words:
            held.append(words)
    if held:
        yield " ".join(held)


def _score(found: Sequence[set[str]]) -> tuple[int, int]:
    """Different words first, then how often they stand there."""
    return len(set().union(*found)), sum(map(len, found))
