"""HTML: what a reader of the page reads, without the furniture around it."""

import logging
from collections.abc import Iterator
from pathlib import Path

from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import clean, declared_encoding, decode
from heddle.corpus.parsing.file_reading import name_without_suffix, read_whole
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.page_furniture import FurnitureError, read_without_furniture
from heddle.corpus.parsing.page_reader import read_page

_log = logging.getLogger(__name__)


def parse_html(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the page as one document with headings; navigation, scripts and styles are left out.

    Raises: InputError: it is missing, unreadable, too large or binary.
    """
    content = read_whole(path, limits)
    page = decode(content, path, declared_encoding(content))
    try:
        reader = read_without_furniture(page, limits.page_chars_max)
    except FurnitureError as error:
        _log.info("%s: read with all that stands around its text: %s", path, error)
        reader = read_page(page)
    yield Document(
        str(path),
        clean(reader.name) or name_without_suffix(path),
        clean(reader.text),
        str(path),
        has_headings=True,
    )
