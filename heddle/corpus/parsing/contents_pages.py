"""Tables of contents: lines that name a heading and its page, and answer nothing by themselves."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

LEADERS_MIN: Final = 3  # of a page: with fewer, rising numbers say little
LEADERS_SHARE: Final = 0.5  # of a page's lines; more of them are leaders in a table of contents
TAIL_CHARS: Final = 80  # what is read of a line's end, however long a line of dots is
_LEADER: Final = re.compile(
    r"(?:(?:[.·]\s*){4,}|(?:…\s*){2,})(?:(?P<page>\d{1,4})|[A-Z\d]{1,2}-\d{1,4}|[ivxlc]{1,8})$"
)


def without_contents(pages: Sequence[str]) -> list[str]:
    """Return pages without the lines of tables of contents, such as `Chapter 3 ........ 17`.

    They are left out where most lines of a page are such and their numbers rise. Prices and
    other values behind dots rarely do, and stay. Where no page would have text left, all stay.
    """
    left = [_without_leaders(page) for page in pages]
    return left if any(left) else list(pages)


def _without_leaders(page: str) -> str:
    lines = page.split("\n")
    found = [_LEADER.search(line.rstrip()[-TAIL_CHARS:]) for line in lines]
    leaders = [match for match in found if match is not None]
    if len(leaders) < LEADERS_MIN:
        return page
    if len(leaders) <= LEADERS_SHARE * sum(bool(line.strip()) for line in lines):
        return page
    numbers = [int(match["page"]) for match in leaders if match["page"]]
    if any(after < before for before, after in pairwise(numbers)):
        return page
    others = (line for line, match in zip(lines, found, strict=True) if match is None)
    return "\n".join(others).strip()
