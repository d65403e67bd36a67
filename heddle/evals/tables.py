"""Tables: TSV and CSV files, plain or gzipped, as rows whose fields are texts."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError
from heddle.evals.file_lines import file_lines
from heddle.evals.row import Row

TSV: Final = ".tsv"
# The names that columns of a table without a head get.
HEADLESS: Final = ("question", "answers")


def table_rows(path: Path, suffix: str) -> Iterator[Row]:
    """Give the lines of a table under the names of its first line; blank lines are skipped.

    A TSV file has no quoting: a quotation mark is part of its text. A table of two columns
    whose first line ends with a list ("[...") has no head: its columns are HEADLESS.

    Raises:
        InputError: the file can't be read or is too large, it is not UTF-8, or a line has
            another number of columns than the head; names the line.
    """
    names: tuple[str, ...] = ()
    for number, cells in _cells(path, suffix):
        where = f"{path}, line {number}"
        if not names:
            is_headless = len(cells) == len(HEADLESS) and cells[-1].lstrip().startswith("[")
            names = HEADLESS if is_headless else tuple(cells)
            if not is_headless:
                continue
        if len(cells) != len(names):
            raise InputError(
                f"{where}: has {len(cells)} columns, the head has {len(names)}: "
                f"{', '.join(names)[:100]}"
            )
        yield Row(where, dict(zip(names, cells, strict=True)))


def _cells(path: Path, suffix: str) -> Iterator[tuple[int, list[str]]]:
    """Give the cells of each line that is not blank, with its number: a quoted cell's last line."""
    lines = _texts(path)
    if suffix == TSV:
        split = ((number, text.rstrip("\r\n")) for number, text in enumerate(lines, start=1))
        yield from ((number, text.split("\t")) for number, text in split if text.strip())
        return
    first = next(lines, "")
    # DPR's tables are called .csv and have tabs.
    delimiter = "\t" if "\t" in first else ","
    reader = csv.reader(_again(first, lines), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not CSV: {error}; quote a cell that has quotation "
            "marks, and double them"
        ) from error


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _texts(path: Path) -> Iterator[str]:
    for number, line in file_lines(path):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}, line {number}: not UTF-8; save it as UTF-8") from error
