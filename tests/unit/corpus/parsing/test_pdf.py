"""PDF: pages, bookmarks, running lines, bounds."""

import logging
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from heddle.core.errors import InputError
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document, Heading
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.pdf import parse_pdf
from tests.helpers.logged import logged
from tests.unit.corpus.parsing.pdfs import pdf


def parse(path: Path, content: bytes, **limits: float) -> Document:
    path.write_bytes(content)
    (document,) = parse_pdf(path, ParseLimits(**limits))
    return document


def with_bookmarks(content: bytes, *bookmarks: tuple[str, int, int]) -> bytes:
    """Add bookmarks (words, page, level); a deeper one belongs to the one before it."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(content)))
    parents = {}
    for words, page, level in bookmarks:
        parents[level] = writer.add_outline_item(
            title=words, page_number=page, parent=parents.get(level - 1)
        )
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def test_pages(tmp_path):
    document = parse(tmp_path / "a.pdf", pdf("one", "", "three"))
    assert document.text == "one\n\n\n\nthree"
    assert document.pages == (0, 5, 7)
    assert [document.page_at(at) for at in (0, 3, 7, 11)] == [1, 1, 3, 3]


def test_bookmarks_are_headings_at_their_words(tmp_path):
    content = pdf("Preface words\n2.1 Deep\nwells", "Nothing here\nAdits\nlevel")
    marked = with_bookmarks(
        content, ("Preface", 0, 1), ("Deep", 0, 2), ("Missing", 1, 1), ("Adits", 1, 2)
    )
    document = parse(tmp_path / "a.pdf", marked)
    assert document.headings == (
        Heading(1, "Preface", 0, 7),
        Heading(2, "Deep", 14, 22),
        Heading(1, "Missing", 30, 30),
        Heading(2, "Adits", 43, 48),
    )
    found = chunk_document(document, Chunking(size=7))
    assert [(chunk.text, chunk.page, chunk.heading) for chunk in found] == [
        ("words", 1, ("Preface",)),
        ("wells", 1, ("Preface", "Deep")),
        ("Nothing here", 2, ("Missing",)),
        ("level", 2, ("Missing", "Adits")),
    ]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("abc-\ndef", "abcdef"),
        ("OP-\nTIONAL", "OPTIONAL"),
        ("abc-\nDEF", "abc-DEF"),
        ("vwx-\nyz", "абвгд"),
        ("no. 7-\n8", "no. 7-\n8"),
    ],
)
def test_words_go_on_in_the_next_line(tmp_path, page, text):
    meanings = dict(zip("vwxyz", "абвгд", strict=True))
    assert parse(tmp_path / "a.pdf", pdf(page, meanings=meanings)).text == text


def test_titles_that_are_no_unicode_are_left_out(tmp_path):
    title, half = "ABCDEFGHIJKL", b"<FEFFD83D0041>"  # half of a character, as long as the title
    marked = with_bookmarks(pdf("body of it", title=title), (title, 0, 1), ("body", 0, 1))
    broken = marked.replace(f"({title})".encode(), half)
    assert broken.count(half) == 2
    document = parse(tmp_path / "a.pdf", broken)
    assert (document.title, document.text) == ("a", "body of it")
    assert [heading.text for heading in document.headings] == ["body"]


def test_running_lines_go(tmp_path):
    pages = (f"The Manual {n}\nbody of page {n}\nmore\n{n}" for n in "123456")
    document = parse(tmp_path / "a.pdf", pdf(*pages))
    assert document.text.split("\n\n")[0] == "body of page 1\nmore"
    assert "Manual" not in document.text
    few = parse(tmp_path / "b.pdf", pdf("The Manual\none", "The Manual\ntwo"))
    assert few.text.count("The Manual") == 2


@pytest.mark.parametrize(
    "numbers",
    [
        [str(n) for n in range(98, 118)],
        [f"2-{n}" for n in range(5, 15)] + [f"3-{n}" for n in range(1, 11)],
        [f"The Manual {n}" for n in (*range(3, 13), *range(1, 11))],  # two books
        [str(n) for n in range(1, 41, 2)],  # two pages on one
        [f"Page {n} of 2" for n in (1, 2) * 10],
        ["12.03.2026"] * 20,
    ],
)
def test_numbers_of_pages_go(tmp_path, numbers):
    bodies = [f"{chr(ord('a') + n) * 3} is here\nand more" for n in range(20)]
    pages = (f"{body}\n{number}" for body, number in zip(bodies, numbers, strict=True))
    assert parse(tmp_path / "a.pdf", pdf(*pages)).text == "\n\n".join(bodies)


def test_amounts_at_the_edge_of_pages_stay(tmp_path):
    amounts = ("310.50", "99.00", "1200.10", "45.90", "870.00", "12.30", "604.00")
    pages = (
        f"Invoice {1000 + 7 * n}\nWells and pumps\nfor the mill\nTotal: {amount}"
        for n, amount in enumerate(amounts)
    )
    text = parse(tmp_path / "a.pdf", pdf(*pages)).text
    assert all(f"Invoice {1000 + 7 * n}" in text for n in range(7))
    assert all(f"Total: {amount}" in text for amount in amounts)


CONTENTS = (
    "Contents\nPreface ........ iv\n1 Wells . . . . . . . 1\n1.1 Adits .......... 7\n2 Ore ..... 12"
)


def test_lines_of_a_table_of_contents_are_no_passages(tmp_path):
    document = parse(tmp_path / "a.pdf", pdf(CONTENTS, "Wells are deep.", "So are adits."))
    assert document.text == "Contents\n\nWells are deep.\n\nSo are adits."
    assert document.pages == (0, 10, 27)
    found = chunk_document(document, Chunking())
    assert not any("....." in chunk.text for chunk in found)
    marked = with_bookmarks(pdf(CONTENTS, "1 Wells\nare deep."), ("Wells", 1, 1))
    assert parse(tmp_path / "b.pdf", marked).headings == (Heading(1, "Wells", 10, 17),)


@pytest.mark.parametrize(
    "page",
    [
        "Prices\nWinter coat ........ 40\nScarf ........ 12\nHat ........ 15\nGloves ........ 9",
        "Wells are deep. So are adits.\nThey are dug.\nBy whom?\nSee below.\n"
        "Wells ..... 1\nAdits ..... 2\nOre ..... 3",
        "Wells ..... 1\nOre ..... 2",
        "and so on ....\nand on .....\nand on ......",
    ],
    ids=["falling numbers", "few of its lines", "two lines", "no numbers"],
)
def test_other_lines_with_dots_stay(tmp_path, page):
    document = parse(tmp_path / "a.pdf", pdf(page, "Wells are deep."))
    assert document.text == f"{page}\n\nWells are deep."


def test_a_file_that_is_all_contents_keeps_them(tmp_path):
    only = CONTENTS.removeprefix("Contents\n")
    assert parse(tmp_path / "a.pdf", pdf(only)).text == only


def test_pages_without_text_are_logged(tmp_path):
    with logged(logging.getLogger("heddle.corpus.parsing.pdf")) as lines:
        parse(tmp_path / "a.pdf", pdf("one", ""))
    assert any("1 of 2 pages have no text: OCR them first" in line for line in lines)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"pages_max": 2}, "3 pages, over the limit of 2; split it"),
        ({"text_chars_max": 8}, "over the limit of 0 million characters"),
        ({"cpu_s_max": -1.0}, "1 of 3 pages took"),
    ],
)
def test_bounds(tmp_path, limits, reason):
    with pytest.raises(InputError, match=rf"a\.pdf: {reason}"):
        parse(tmp_path / "a.pdf", pdf("one", "two two", "three"), **limits)


def test_ten_thousand_pages(tmp_path):
    document = parse(tmp_path / "a.pdf", pdf(*(f"words of page {n}" for n in range(10_000))))
    assert len(document.pages) == 10_000
    assert document.page_at(document.text.index("page 9999")) == 10_000
