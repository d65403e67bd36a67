"""A document's sections: what stands under one heading."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Final

from heddle.corpus.document import Document, Heading

HEADING_CHARS_MAX = 200  # a longer line is a paragraph that begins with a hash
TITLE_CHARS_MAX = 400
SEPARATOR = " > "

_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*?)(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-{3,})[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
# Headings of lists of headings. Some pages give them a level above all that they list.
_LISTS: Final = frozenset({"contents", "table of contents"})


@dataclass(frozen=True, slots=True)
class Section:
    """A run of a document's text, [start, end) in characters, under a title of its own.

    `path` are the headings above it, the outermost first; `heading` is the last of them, None
    where there is none or where the text begins with it.
    """

    title: str
    path: tuple[str, ...]
    start: int
    end: int
    heading: Heading | None = None


def sections(document: Document) -> Iterator[Section]:
    """Cut a document at its headings; their words go to the titles: "Document > Heading".

    A heading without any text under it becomes a section whose text it is, so no word is lost;
    one that only holds further headings is in their titles.
    """
    path: list[Heading] = []
    start = 0
    end_mark = Heading(0, "", len(document.text), len(document.text))
    marked = headings(document) if document.has_headings else ()
    for heading in chain(document.headings or marked, (end_mark,)):
        names = tuple(above.text for above in path)
        title, own = _title(document.title, names), path[-1] if path else None
        if document.text[start : heading.start].strip():
            yield Section(title, names, start, heading.start, own)
        elif own and heading.level <= own.level:
            yield Section(title, names, own.start, own.end, own)
        path = [above for above in path if _stands_above(above, heading)] + [heading]
        start = heading.end


def _stands_above(above: Heading, heading: Heading) -> bool:
    return above.level < heading.level and above.text.casefold() not in _LISTS


def joined(document_title: str, left: Section, right: Section) -> Section | None:
    """Return two sections that follow each other as one, or None if words would be lost.

    It stands under the headings that are above both; the others are in its text.
    """
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(left.path, right.path, strict=False))
    shared = tuple(name for name, _ in pairs)
    start = _start_below(left, len(shared))
    if start is None or _start_below(right, len(shared)) is None:
        return None
    own = left.heading if left.path == shared else None
    return Section(_title(document_title, shared), shared, start, right.end, own)


def _start_below(section: Section, depth: int) -> int | None:
    """Return where a section begins with its own heading, if that stands below `depth` others."""
    if len(section.path) == depth:
        return section.start
    heading = section.heading
    if heading is None or len(section.path) != depth + 1 or heading.start == heading.end:
        return None
    return heading.start


def shorter_title(title: str) -> str:
    """Return a title without its outermost part, or without its second half if it has but one."""
    outermost, _, rest = title.partition(SEPARATOR)
    return rest or outermost[: len(outermost) // 2]


def headings(document: Document) -> Iterator[Heading]:
    """Give a Markdown document's headings, ATX and setext, outside of fenced code."""
    fence = ""
    above: tuple[str, int] | None = None  # a line that alone began a paragraph, and its start
    begins_paragraph = True
    start = 0
    for line in document.text.splitlines(keepends=True):
        content, end = line.rstrip(), start + len(line)
        after = _fence_after(content, fence)
        is_code = bool(fence or after)
        fence = after
        found = None if is_code else _atx(content, start, end) or _setext(content, above, end)
        if found:
            yield found
        may_be_underlined = begins_paragraph and content and not is_code and not found
        above = (content.strip(), start) if may_be_underlined else None
        begins_paragraph = not content or found is not None
        start = end


def _fence_after(line: str, fence: str) -> str:
    """Return the fence of the code that a line leaves open, given that before it; "" = none.

    Code ends with a fence that is no shorter and stands alone. "```x```" is code within a line.
    """
    found = _FENCE.match(line)
    if found is None:
        return fence
    mark, rest = found[1], found[2]
    if fence:
        return "" if mark.startswith(fence) and not rest.strip() else fence
    return "" if mark[0] == "`" and "`" in rest else mark


def _atx(content: str, start: int, end: int) -> Heading | None:
    """Read `## Words ##`."""
    found = _ATX.match(content) if len(content) <= HEADING_CHARS_MAX else None
    return None if found is None else Heading(len(found[1]), found[2], start, end)


def _setext(content: str, above: tuple[str, int] | None, end: int) -> Heading | None:
    """Read words that are underlined with = or -."""
    if above is None or len(above[0]) > HEADING_CHARS_MAX or not _SETEXT.match(content):
        return None
    return Heading(1 if "=" in content else 2, *above, end)


def _title(document_title: str, path: tuple[str, ...]) -> str:
    """Join titles, leaving out a first heading that repeats the document's, and what is too long.

    The outermost headings go first; the nearest one always stays.
    """
    names = list(path)
    if names and names[0] == document_title:
        del names[0]
    head = document_title[: TITLE_CHARS_MAX - HEADING_CHARS_MAX - len(SEPARATOR)]
    while len(names) > 1 and len(SEPARATOR.join((head, *names))) > TITLE_CHARS_MAX:
        del names[0]
    if not names:
        return document_title[:TITLE_CHARS_MAX]
    return SEPARATOR.join((head, *names))
