"""The text in the XML of a DOCX, wherever it stands. (ECMA-376, WordprocessingML)

Word wraps text in content controls, in tracked insertions and in text boxes, and a cell may hold a
table. python-docx passes over all of these. What is shown is read: not what was deleted or moved
away, the hints of empty forms, or the table of contents.
"""

from collections.abc import Iterator
from typing import Final

from lxml import etree

_WORDS: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MATHS: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_EITHER: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
PARAGRAPH: Final = f"{_WORDS}p"
TABLE: Final = f"{_WORDS}tbl"
_ROW: Final = f"{_WORDS}tr"
_CELL: Final = f"{_WORDS}tc"
_BOX: Final = f"{_WORDS}txbxContent"
_CONTROL: Final = f"{_WORDS}sdt"
_VALUE: Final = f"{_WORDS}val"
_WRAPPERS: Final = frozenset(
    f"{_WORDS}{name}" for name in ("sdtContent", "ins", "moveTo", "customXml", "smartTag")
)
# A fallback says again what stands before it; `rt` are the small signs above Japanese words.
_HIDDEN: Final = frozenset(
    (*(f"{_WORDS}{name}" for name in ("del", "moveFrom", "rt")), f"{_EITHER}Fallback")
)
_SIGNS: Final = {
    f"{_WORDS}tab": "\t",
    f"{_WORDS}ptab": "\t",
    f"{_WORDS}br": "\n",
    f"{_WORDS}cr": "\n",
    f"{_WORDS}noBreakHyphen": "-",
}
_TEXTS: Final = frozenset((f"{_WORDS}t", f"{_MATHS}t"))
_SETTINGS: Final = frozenset(f"{_WORDS}{name}" for name in ("pPr", "rPr"))  # `tab` is a stop there
_CONTENTS: Final = "Table of Contents"


def blocks(parent: etree._Element) -> Iterator[etree._Element]:
    """Give the paragraphs and tables in an element, in order, those of text boxes behind theirs."""
    for block in _inside(parent, frozenset((PARAGRAPH, TABLE))):
        yield block
        if block.tag == PARAGRAPH:
            for box in _boxes(block):
                yield from blocks(box)


def words(paragraph: etree._Element) -> str:
    """Return what a paragraph says, without its text boxes."""
    return "".join(_words(paragraph))


def rows(table: etree._Element) -> Iterator[list[str]]:
    """Give the cells of each row; one that goes over several rows is there in each of them."""
    above: dict[int, str] = {}
    for row in _inside(table, frozenset((_ROW,))):
        cells, column = [], _number(row, "trPr", "gridBefore", 0)
        for cell in _inside(row, frozenset((_CELL,))):
            text, merged = _cell_text(cell), _setting(cell, "tcPr", "vMerge")
            if merged is not None and merged.get(_VALUE) != "restart":
                text = text.strip() or above.get(column, "")
            above[column] = text
            cells.append(text)
            column += max(1, _number(cell, "tcPr", "gridSpan", 1))
        yield cells


def _cell_text(cell: etree._Element) -> str:
    """Return a cell's text; a table in it gives a line for each of its rows."""
    lines = []
    for block in blocks(cell):
        if block.tag == PARAGRAPH:
            lines.append(words(block))
        else:
            lines += [" ".join(cells) for cells in rows(block)]
    return "\n".join(lines)


def _inside(parent: etree._Element, tags: frozenset[str]) -> Iterator[etree._Element]:
    """Give the elements of some tags that stand in another one, also within wrappers."""
    for child in parent:
        if child.tag in tags:
            yield child
        elif child.tag in _WRAPPERS or (child.tag == _CONTROL and _is_content(child)):
            yield from _inside(child, tags)


def _words(parent: etree._Element) -> Iterator[str]:
    for child in parent:
        if child.tag in _TEXTS:
            yield child.text or ""
        elif child.tag in _SIGNS:
            yield _SIGNS[child.tag]
        elif child.tag == _CONTROL:
            if _is_content(child):
                yield from _words(child)
        elif child.tag not in _HIDDEN and child.tag not in _SETTINGS and child.tag != _BOX:
            yield from _words(child)


def _boxes(parent: etree._Element) -> Iterator[etree._Element]:
    for child in parent:
        if child.tag == _BOX:
            yield child
        elif child.tag not in _HIDDEN:
            yield from _boxes(child)


def _is_content(control: etree._Element) -> bool:
    """Whether a content control holds text: no hint of what to write there, no contents."""
    if _setting(control, "sdtPr", "showingPlcHdr") is not None:
        return False
    galleries = control.iterfind(f"{_WORDS}sdtPr/*/{_WORDS}docPartGallery")
    return all(gallery.get(_VALUE) != _CONTENTS for gallery in galleries)


def _setting(element: etree._Element, where: str, name: str) -> etree._Element | None:
    return element.find(f"{_WORDS}{where}/{_WORDS}{name}")


def _number(element: etree._Element, where: str, name: str, default: int) -> int:
    """Return a setting that is a number; the default where it is missing, or no number."""
    found = _setting(element, where, name)
    value = "" if found is None else found.get(_VALUE) or ""
    return int(value) if value.isdecimal() and len(value) < 10 else default
