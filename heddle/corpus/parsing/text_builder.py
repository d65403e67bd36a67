"""A document's text, put together block by block, with its headings and pages."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from heddle.corpus.document import Document, Heading
from heddle.corpus.parsing.decoding import clean
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.sections import HEADING_CHARS_MAX

BLOCK_BORDER: Final = "\n\n"


@dataclass(slots=True)
class TextBuilder:
    """Collects what a parser finds in a file.

    Mutates: every method adds to the text.
    """

    path: Path
    limits: ParseLimits
    blocks: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    chars: int = 0

    def begin_page(self) -> None:
        """What is added from now on stands on the next page."""
        self.pages.append(self.chars)

    def add(self, text: str) -> None:
        """Add a paragraph, a row, or anything else that stands by itself.

        Raises: InputError: the document has too much text.
        """
        block = clean(text).strip()
        if block:
            self.blocks.append(block)
            self.chars += len(block) + len(BLOCK_BORDER)
            self.limits.check_text(self.path, self.chars)

    def add_heading(self, level: int, text: str) -> None:
        """Add a heading; one that is longer than headings are is a paragraph.

        Raises: InputError: the document has too much text.
        """
        words, start = " ".join(clean(text).split()), self.chars
        self.add(words)
        if words and len(words) <= HEADING_CHARS_MAX:
            self.headings.append(Heading(level, words, start, start + len(words)))

    def add_row(self, cells: list[str]) -> None:
        """Add a row of a table.

        Raises: InputError: the document has too much text.
        """
        words = (" ".join(cell.split()) for cell in cells)
        self.add(" | ".join(word for word in words if word))

    def document(self, title: str) -> Document:
        """Return what was added; without a title, the first heading or the file's name is it."""
        first = self.headings[0].text if self.headings else self.path.stem
        return Document(
            str(self.path),
            " ".join(clean(title).split()) or first,
            BLOCK_BORDER.join(self.blocks),
            str(self.path),
            headings=tuple(self.headings),
            pages=tuple(self.pages),
        )
