"""EPUB: a zip archive of XHTML pages, read in the order of the book. (EPUB 3.3, W3C)"""

import posixpath
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from zipfile import ZipFile

from lxml import etree

from heddle.core.errors import InputError
from heddle.corpus.document import Document
from heddle.corpus.parsing.archive import read_archive, unreadable_as_input_error
from heddle.corpus.parsing.decoding import clean, declared_encoding, decode
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.page_reader import read_page

CONTAINER: Final = "META-INF/container.xml"
ENCRYPTION: Final = "META-INF/encryption.xml"
PAGE_TYPES: Final = ("application/xhtml+xml", "text/html")


def parse_epub(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the book as one document with the headings of its chapters.

    Raises: InputError: it is missing, too large, a bomb, encrypted or damaged, or has no chapters.
    """
    content = read_archive(path, limits)
    with unreadable_as_input_error(path), ZipFile(BytesIO(content)) as archive:
        package = _package_name(archive, path)
        book = _xml(archive.read(package))
        pages = _pages(book, posixpath.dirname(package))
        held = set(archive.namelist())
        _refuse_encrypted(archive, held, pages, path)
        texts = []
        for name in pages:
            if name in held:
                page = archive.read(name)
                texts.append(read_page(decode(page, path, declared_encoding(page))).text)
        if not texts:
            raise InputError(f"{path}: no chapters in it; open and save it anew")
        title = next((" ".join(t.text.split()) for t in book.iter("{*}title") if t.text), "")
    text = clean("\n\n".join(filter(None, texts)))
    limits.check_text(path, len(text))
    yield Document(str(path), clean(title) or path.stem, text, str(path), has_headings=True)


def _package_name(archive: ZipFile, path: Path) -> str:
    for file in _xml(archive.read(CONTAINER)).iter("{*}rootfile"):
        if file.get("full-path"):
            return str(file.get("full-path"))
    raise InputError(f"{path}: its {CONTAINER} names no book; open and save it anew")


def _pages(book: etree._Element, folder: str) -> list[str]:
    """Return the names of the pages in the order of the book, without its table of contents."""
    names = {}
    for item in book.iter("{*}item"):
        is_page = item.get("media-type") in PAGE_TYPES
        if is_page and "nav" not in (item.get("properties") or "").split():
            name = posixpath.join(folder, unquote(item.get("href") or ""))
            names[item.get("id")] = posixpath.normpath(name)
    order = (item.get("idref") for item in book.iter("{*}itemref") if item.get("linear") != "no")
    return list(dict.fromkeys(names[page] for page in order if page in names))


def _refuse_encrypted(archive: ZipFile, held: set[str], pages: list[str], path: Path) -> None:
    """Refuse a book with protected pages; that of fonts alone is common and does no harm."""
    if ENCRYPTION not in held:
        return
    found = _xml(archive.read(ENCRYPTION)).iter("{*}CipherReference")
    if not {unquote(part.get("URI") or "") for part in found}.isdisjoint(pages):
        raise InputError(f"{path}: encrypted (DRM); only an unprotected copy can be read")


def _xml(content: bytes) -> etree._Element:
    # Entities are never expanded and nothing is fetched.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    return etree.fromstring(content, parser)
