"""Markdown: its headings cut it into sections; the first of level 1 is the title."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import decode
from heddle.corpus.parsing.file_reading import name_without_suffix, read_whole
from heddle.corpus.parsing.front_matter import front_matter
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.sections import headings


def parse_markdown(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the file as one document with headings.

    Raises: InputError: it is missing, unreadable, too large or binary.
    """
    text = decode(read_whole(path, limits), path)
    front, name = front_matter(text), name_without_suffix(path)
    body = Document(str(path), name, text[front.end :], str(path), has_headings=True)
    yield replace(body, title=front.title or _first_heading(body) or name)


def _first_heading(document: Document) -> str:
    return next((heading.text for heading in headings(document) if heading.level == 1), "")
