"""DOCX, through python-docx: paragraphs, headings by their styles, tables row by row."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

from heddle.corpus.document import Document
from heddle.corpus.parsing import docx_text
from heddle.corpus.parsing.archive import missing_extra, read_archive, unreadable_as_input_error
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.text_builder import TextBuilder

_HEADING: Final = re.compile(r"heading ([1-9])$", re.IGNORECASE)  # built-in names stay English
_CONTENTS: Final = re.compile(r"toc ([1-9]|heading)$")
_TITLE: Final = "title"


def parse_docx(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the file as one document with headings.

    Headers, footers, notes at the foot, comments and the table of contents are left out.

    Raises: InputError: it is missing, too large, a bomb, encrypted or damaged, or python-docx is
        not installed.
    """
    try:
        from docx import Document as open_docx  # late: only those who index DOCX pay for it
        from docx.text.paragraph import Paragraph
    except ImportError as error:
        raise missing_extra(path, "python-docx") from error
    content = read_archive(path, limits)
    with unreadable_as_input_error(path):
        word = open_docx(BytesIO(content))
        builder, title = TextBuilder(path, limits), word.core_properties.title or ""
        for block in docx_text.blocks(word.element.body):
            if block.tag == docx_text.TABLE:
                for row in docx_text.rows(block):
                    builder.add_row(row)
                continue
            style, text = Paragraph(block, word).style, docx_text.words(block)
            name = ((style.name if style else "") or "").lower()
            if name == _TITLE and not title:
                title = text
            else:
                _add_paragraph(builder, name, text)
        document = builder.document(title)
    yield document


def _add_paragraph(builder: TextBuilder, style: str, text: str) -> None:
    heading = _HEADING.match(style)
    if heading:
        builder.add_heading(int(heading[1]), text)
    elif not _CONTENTS.match(style):
        text = text.strip()
        builder.add(f"- {text}" if text and style.startswith("list") else text)
