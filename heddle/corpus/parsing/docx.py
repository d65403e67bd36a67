"""DOCX, through python-docx: paragraphs, headings by their styles, tables row by row."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heddle.corpus.document import Document
from heddle.corpus.parsing.archive import missing_extra, read_archive, unreadable_as_input_error
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.text_builder import TextBuilder

if TYPE_CHECKING:
    from docx.table import Table
    from docx.text.paragraph import Paragraph

_HEADING: Final = re.compile(r"heading ([1-9])$", re.IGNORECASE)  # built-in names stay English
_TITLE: Final = "title"


def parse_docx(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the file as one document with headings; headers, footers and comments are left out.

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
        for part in word.iter_inner_content():
            if not isinstance(part, Paragraph):
                _add_table(builder, part)
            elif _style(part) == _TITLE and not title:
                title = part.text
            else:
                _add_paragraph(builder, part)
        document = builder.document(title)
    yield document


def _add_paragraph(builder: TextBuilder, paragraph: "Paragraph") -> None:
    style = _style(paragraph)
    heading = _HEADING.match(style)
    if heading:
        builder.add_heading(int(heading[1]), paragraph.text)
    else:
        text = paragraph.text.strip()
        builder.add(f"- {text}" if text and style.startswith("list") else text)


def _style(paragraph: "Paragraph") -> str:
    style = paragraph.style
    return (style.name or "").lower() if style is not None else ""


def _add_table(builder: TextBuilder, table: "Table") -> None:
    for row in table.rows:
        # A cell that spans several columns is there several times.
        cells = dict.fromkeys(row.cells)
        builder.add_row([cell.text for cell in cells])
