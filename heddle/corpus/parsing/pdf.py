"""PDF, through PDFium: the text of its pages; pictures of text need OCR first."""

import logging
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Lock
from time import thread_time
from typing import TYPE_CHECKING, Final

from heddle.core.errors import InputError
from heddle.corpus.document import Document, Heading
from heddle.corpus.parsing.contents_pages import without_contents
from heddle.corpus.parsing.decoding import clean
from heddle.corpus.parsing.file_reading import name_without_suffix, read_whole
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.sections import HEADING_CHARS_MAX

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_log = logging.getLogger(__name__)

BOOKMARKS_MAX: Final = 20_000
RUNNING_LINES: Final = 2  # at the top of a page, and as many at its bottom
LINES_LEFT_MIN: Final = 2  # of a page
RUNNING_PAGES_MIN: Final = 4
RUNNING_SHARE: Final = 0.1  # of all pages
STEPS_SHARE: Final = 0.85  # of those from page to page: a volume of two books counts anew once
PAGE_STEP_MAX: Final = 2  # of a page's number, where two pages are printed on one
NUMBER_DIGITS_MAX: Final = 18  # that are compared
PAGE_BORDER: Final = "\n\n"
_PASSWORD_ERROR: Final = 4  # PDFium's FPDF_ERR_PASSWORD
# PDFium's sign for a hyphen at the end of a line, or the hyphen itself.
_HYPHENATED: Final = re.compile(r"\ufffe\n?|-\n")
_NUMBER: Final = r"(?:^[A-Z\d][\d.]*\s+)?"  # a bookmark often lacks the number of its section
_DIGITS: Final = re.compile(r"\d+")
# "Page 3 of 7" is one wherever it counts anew, as in documents that were put together.
_PAGE_WORD: Final = re.compile(
    r"^\W*(?:page|seite|p\.|s\.) ?#(?:\W*(?:of|von|/) ?#)?\W*$", re.IGNORECASE
)
_ONE_AT_A_TIME: Final = Lock()  # PDFium is not safe for threads


def parse_pdf(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the file as one document; pages are paragraphs, its bookmarks are the headings.

    Lines that run along the tops or bottoms of the pages, such as page numbers, are left out, and
    those of tables of contents.

    Raises: InputError: it is missing, too large, encrypted, damaged, or has no text in it.
    """
    content = read_whole(path, limits)
    with _ONE_AT_A_TIME:
        title, pages, bookmarks = _read(content, path, limits)
    empty = sum(not page.strip() for page in pages)
    if empty == len(pages):
        raise InputError(f"{path}: a scan without text: OCR it first (for example with ocrmypdf)")
    if empty:
        _log.info("%s: %d of %d pages have no text: OCR them first", path, empty, len(pages))
    pages = without_contents(_without_running_lines(pages))
    pages = [_HYPHENATED.sub(_rejoined, page) for page in pages]
    starts = tuple(accumulate((len(page) + len(PAGE_BORDER) for page in pages[:-1]), initial=0))
    text = PAGE_BORDER.join(pages)
    headings = _headings(bookmarks, text, starts)
    yield Document(
        str(path),
        title or name_without_suffix(path),
        text,
        str(path),
        headings=headings,
        pages=starts,
    )


def _read(
    content: bytes, path: Path, limits: ParseLimits
) -> tuple[str, list[str], list[tuple[int, str, int]]]:
    """Return the title, the pages' texts, and bookmarks: level from 1, words, page from 0.

    Raises:
        InputError: the PDF needs a password, or can't be read.
    """
    from pypdfium2 import PdfDocument, PdfiumError  # late: only those who index PDFs pay for it

    try:
        pdf = PdfDocument(content)
    except PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            raise InputError(f"{path}: encrypted; save it without a password first") from error
        raise _unreadable(path, error) from error
    try:
        pages = _pages(pdf, path, limits)
        title = _title(lambda: pdf.get_metadata_value("Title"), path)
        return title, pages, list(_bookmarks(pdf, path))
    except PdfiumError as error:
        raise _unreadable(path, error) from error
    finally:
        pdf.close()


def _unreadable(path: Path, error: Exception) -> InputError:
    reason = str(error).removesuffix(".")
    return InputError(f"{path}: not a readable PDF: {reason}; open and save it anew")


def _pages(pdf: "PdfDocument", path: Path, limits: ParseLimits) -> list[str]:
    if len(pdf) > limits.pages_max:
        raise InputError(
            f"{path}: {len(pdf)} pages, over the limit of {limits.pages_max}; split it"
        )
    started_s, chars = thread_time(), 0
    pages = []
    for number in range(len(pdf)):
        page = pdf[number]
        text_page = page.get_textpage()
        text = text_page.get_text_range()
        text_page.close()
        page.close()
        pages.append(clean(text).strip())
        chars += len(text)
        limits.check_text(path, chars)
        if thread_time() - started_s > limits.cpu_s_max:
            raise InputError(
                f"{path}: {number + 1} of {len(pdf)} pages took {limits.cpu_s_max:.0f} CPU seconds,"
                " the limit for a file; split it"
            )
    return pages


def _bookmarks(pdf: "PdfDocument", path: Path) -> Iterator[tuple[int, str, int]]:
    for count, item in enumerate(pdf.get_toc()):
        if count == BOOKMARKS_MAX:
            return
        target, words = item.get_dest(), _title(item.get_title, path)
        page = None if target is None else target.get_index()
        if words and page is not None and 0 <= page < len(pdf):
            yield item.level + 1, words[:HEADING_CHARS_MAX], page


def _title(read: Callable[[], str], path: Path) -> str:
    """Return the words of a title; "" where its bytes are no UTF-16."""
    try:
        return _words(read())
    except UnicodeDecodeError as error:
        _log.info("%s: a title that is no Unicode is left out: %s", path, error)
        return ""


def _words(text: str) -> str:
    return " ".join(clean(text).split())


def _without_running_lines(pages: list[str]) -> list[str]:
    """Return pages without first and last lines that many share, up to the numbers of pages."""
    lines = [page.split("\n") for page in pages]
    for _ in range(RUNNING_LINES):
        for end in (0, -1):
            found = [_numbered(page[end]) for page in lines]
            running = _running(found, max(RUNNING_PAGES_MIN, RUNNING_SHARE * len(pages)))
            for page, (words, _) in zip(lines, found, strict=True):
                if len(page) > LINES_LEFT_MIN and words in running:
                    del page[end]
    return ["\n".join(page).strip() for page in lines]


def _numbered(line: str) -> tuple[str, tuple[int, ...]]:
    """Return a line's words with a sign for each number, and its numbers."""
    line = line.strip()
    numbers = (found[-NUMBER_DIGITS_MAX:] for found in _DIGITS.findall(line))
    return _DIGITS.sub("#", line), tuple(map(int, numbers))


def _running(lines: Iterable[tuple[str, tuple[int, ...]]], pages_min: float) -> set[str]:
    """Return the words of lines that stand on many pages, with numbers as pages have them.

    Others, such as amounts, say something: an invoice's total is no page's number.
    """
    found: dict[str, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    for page, (words, numbers) in enumerate(lines):
        if words:
            found[words].append((page, numbers))
    running = set()
    for words, there in found.items():
        steps = sum(_goes_on(*before, *after) for before, after in pairwise(there))
        are_pages = steps >= STEPS_SHARE * (len(there) - 1) or _PAGE_WORD.search(words)
        if len(there) >= pages_min and are_pages:
            running.add(words)
    return running


def _goes_on(page: int, numbers: tuple[int, ...], later: int, then: tuple[int, ...]) -> bool:
    """Whether numbers stay, or rise as those of pages do; in "3-17" that of a chapter may rise."""
    if len(numbers) == 1:
        return 0 <= then[0] - numbers[0] <= PAGE_STEP_MAX * (later - page)
    return numbers <= then


def _rejoined(found: re.Match[str]) -> str:
    """Return what takes the place of a hyphen at the end of a line: nothing, where a word goes on.

    PDFium's sign stands for a hyphen, which is shown again before what begins another word: no
    letter, or a capital behind a small one.
    """
    text = found.string
    before = text[max(0, found.start() - 1) : found.start()]
    after = text[found.end() : found.end() + 1]
    if found[0].startswith("-"):
        return "" if before.islower() and after.islower() else found[0]
    goes_on = after.isalpha() and (before.isupper() or not after.isupper())
    return "" if goes_on else "-"


def _headings(
    bookmarks: Iterable[tuple[int, str, int]], text: str, starts: tuple[int, ...]
) -> tuple[Heading, ...]:
    """Return the bookmarks as headings, at their words if these stand on their page."""
    found: list[Heading] = []
    for level, words, page in bookmarks:
        end = starts[page + 1] if page + 1 < len(starts) else len(text)
        start = starts[page]
        if found and bisect_right(starts, found[-1].start) - 1 == page:
            start = max(start, found[-1].end)
        words_there = r"\s+".join(map(re.escape, words.split()))
        there = re.compile(_NUMBER + words_there, re.MULTILINE).search(text, start, end)
        span = there.span() if there else (start, start)
        found.append(Heading(level, words, *span))
    return tuple(sorted(found, key=lambda heading: heading.start))
