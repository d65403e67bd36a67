"""Markdown: its headings cut it into sections; the first of level 1 is the title."""

import re
from collections.abc import Iterator
from pathlib import Path

from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import decode
from heddle.corpus.parsing.file_reading import name_without_suffix, read_whole
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.sections import headings

# The YAML block that site generators put first: settings, not text.
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"""^title:[ \t]*(["']?)(.+?)\1[ \t]*$""", re.MULTILINE)


def parse_markdown(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the file as one document with headings.

    Raises: InputError: it is missing, unreadable, too large or binary.
    """
    text = decode(read_whole(path, limits), path)
    front = _FRONT_MATTER.match(text)
    front_title = _FRONT_TITLE.search(front[0]) if front else None
    body = Document(
        str(path),
        name_without_suffix(path),
        text[front.end() :] if front else text,
        str(path),
        True,
    )
    title = front_title[2] if front_title else _first_heading(body)
    yield Document(
        body.id, title or name_without_suffix(path), body.text, body.source, has_headings=True
    )


def _first_heading(document: Document) -> str:
    return next((heading.text for heading in headings(document) if heading.level == 1), "")
