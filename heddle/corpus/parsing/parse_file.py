"""A file to documents, by its suffix."""

from collections.abc import Callable, Iterator
from pathlib import Path

from heddle.core.errors import InputError
from heddle.corpus.document import Document
from heddle.corpus.parsing.csv_rows import parse_csv
from heddle.corpus.parsing.docx import parse_docx
from heddle.corpus.parsing.epub import parse_epub
from heddle.corpus.parsing.file_reading import file_errors
from heddle.corpus.parsing.html import parse_html
from heddle.corpus.parsing.jsonl import parse_jsonl
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.markdown import parse_markdown
from heddle.corpus.parsing.pdf import parse_pdf
from heddle.corpus.parsing.pptx import parse_pptx
from heddle.corpus.parsing.text import parse_text

Parser = Callable[[Path, ParseLimits], Iterator[Document]]

# Distributions compress the longer ones of such files; office files are archives already.
_READ_WHOLE: dict[str, Parser] = {
    ".txt": parse_text,
    ".text": parse_text,
    ".rst": parse_text,
    ".md": parse_markdown,
    ".markdown": parse_markdown,
    ".html": parse_html,
    ".htm": parse_html,
    ".xhtml": parse_html,
    ".pdf": parse_pdf,
}
_PARSERS: dict[str, Parser] = {
    **_READ_WHOLE,
    **{f"{suffix}.gz": parse for suffix, parse in _READ_WHOLE.items()},
    ".docx": parse_docx,
    ".pptx": parse_pptx,
    ".epub": parse_epub,
    ".csv": parse_csv,
    ".tsv": parse_csv,
    ".jsonl": parse_jsonl,
    ".ndjson": parse_jsonl,
    ".jsonl.gz": parse_jsonl,
    ".ndjson.gz": parse_jsonl,
}
KNOWN_SUFFIXES = tuple(_PARSERS)
# Read line by line, or as they are: their parsers have no deep structure to get lost in.
_PLAIN_PARSERS = frozenset({parse_text, parse_markdown, parse_csv, parse_jsonl})
DEFAULT_LIMITS = ParseLimits()


def parse_file(path: Path, limits: ParseLimits = DEFAULT_LIMITS) -> Iterator[Document]:
    """Give a file's documents; one may have an empty text.

    Raises: InputError: the format is unknown, or the file can't be used; names file and reason.
    """
    parser = parser_for(path)
    if parser is None:
        with file_errors(path):
            path.stat()  # what isn't there has no format
            if path.is_dir():
                raise IsADirectoryError
        raise InputError(f"{path}: unknown format; known are {' '.join(KNOWN_SUFFIXES)}")
    yield from parser(path, limits)


def parser_for(path: Path) -> Parser | None:
    """Return the parser for a file's suffix, or None."""
    name = path.name.lower()
    return next((parse for suffix, parse in _PARSERS.items() if name.endswith(suffix)), None)


def is_intricate(path: Path) -> bool:
    """Whether a file's format is one that a hostile file could make a parser hang or swell at."""
    parser = parser_for(path)
    return parser is not None and parser not in _PLAIN_PARSERS
