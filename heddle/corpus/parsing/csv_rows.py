"""CSV and TSV: each row as lines of "column: value", so that a passage explains itself."""

import csv
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from threading import Lock
from typing import Final

from heddle.core.errors import InputError
from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import decode
from heddle.corpus.parsing.file_reading import read_whole
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.text_builder import TextBuilder

DELIMITERS: Final = ",;\t|"
SAMPLE_CHARS: Final = 16_384
# The first line of files that Excel writes or is to read: it names the delimiter.
_NAMED_DELIMITER: Final = re.compile(rf'"?sep=([{DELIMITERS}])"?\n', re.IGNORECASE)
_QUOTED: Final = re.compile('"[^"]*(?:"|$)')
_log = logging.getLogger(__name__)
_ONE_AT_A_TIME: Final = Lock()  # Python's bound on a cell is one for the whole process


def parse_csv(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the file as one document; its first row names the columns, empty cells are left out.

    Raises: InputError: it is missing, unreadable, too large or binary, or has too many rows.
    """
    text = decode(read_whole(path, limits), path)
    builder = TextBuilder(path, limits)
    with _cells_up_to(len(text)):
        _read(text, builder)
    yield builder.document(path.stem)


@contextmanager
def _cells_up_to(chars: int) -> Iterator[None]:
    """Let cells be as long as a document may be: Python takes 131,072 characters at first."""
    with _ONE_AT_A_TIME:
        before = csv.field_size_limit(chars)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _read(text: str, builder: TextBuilder) -> None:
    """Add a file's rows.

    Raises: InputError: they are no CSV, or too many.
    """
    path, limits = builder.path, builder.limits
    named = _NAMED_DELIMITER.match(text)
    text = text[named.end() :] if named else text
    delimiter = named[1] if named else _delimiter(text, path)
    has_lone_quotes = _has_lone_quotes(text, delimiter)
    if has_lone_quotes:
        _log.warning("%s: a quote in it has no end: quotes are read as any other sign", path)
    reader = csv.reader(
        StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if has_lone_quotes else csv.QUOTE_MINIMAL,
    )
    columns: list[str] = []
    try:
        for number, row in enumerate(reader):
            if number > limits.rows_max:
                raise InputError(f"{path}: over the limit of {limits.rows_max} rows; split it")
            if columns:
                builder.add("\n".join(_lines(columns, row)))
            elif any(cell.strip() for cell in row):
                columns = [" ".join(cell.split()) for cell in row]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not CSV: {error}") from error
    if columns and not builder.blocks:
        builder.add(" | ".join(columns))


def _has_lone_quotes(text: str, delimiter: str) -> bool:
    """Whether a cell's quote would take in all rows behind it, or in a TSV perhaps only some.

    Few writers of TSV quote cells, so a text that begins with a quotation is common there.
    """
    if '"' not in text:
        return False
    try:
        for _ in csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        return delimiter == "\t" or "end of data" in str(error)
    return False


def _delimiter(text: str, path: Path) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    first = text[:SAMPLE_CHARS].lstrip("\n").partition("\n")[0]
    return max(DELIMITERS, key=_QUOTED.sub("", first).count)


def _lines(columns: list[str], row: list[str]) -> Iterator[str]:
    for number, (column, cell) in enumerate(zip_longest(columns, row, fillvalue=""), start=1):
        value = " ".join(cell.split())
        if value:
            yield f"{column or f'column {number}'}: {value}"
