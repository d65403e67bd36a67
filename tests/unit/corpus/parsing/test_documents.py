"""DOCX, PPTX, EPUB and CSV; archives that are bombs."""

import csv
import sys
from pathlib import Path

import pytest

from heddle.core.errors import InputError
from heddle.corpus.chunking import Chunking, TextChunk, chunk_document
from heddle.corpus.document import Document
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.parse_file import parse_file
from tests.unit.corpus.parsing.archives import archive, docx, docx_of, epub, pptx, unpacked


def parse(path: Path, content: bytes | str, **limits: int) -> Document:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (document,) = parse_file(path, ParseLimits(**limits))
    return document


def chunks(document: Document) -> tuple[TextChunk, ...]:
    found = chunk_document(document, Chunking(size=7))
    assert all(document.text[chunk.start : chunk.end] == chunk.text for chunk in found)
    return found


def test_docx(tmp_path):
    document = parse(tmp_path / "a.docx", docx())
    assert document.title == "The Manual"
    assert [(chunk.heading, chunk.text) for chunk in chunks(document)] == [
        ((), "Before all headings."),
        (("Setup",), "Turn the key.\n\n- the first item"),
        (("Setup", "Limits"), "name | value\n\ndepth | 12"),
    ]


def run(text: str, tag: str = "t") -> str:
    return f"<w:r><w:{tag}>{text}</w:{tag}></w:r>"


def paragraph(*parts: str, style: str = "") -> str:
    look = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{look}{''.join(parts)}</w:p>"


def control(content: str, settings: str = "") -> str:
    return f"<w:sdt><w:sdtPr>{settings}</w:sdtPr><w:sdtContent>{content}</w:sdtContent></w:sdt>"


def cell(content: str, settings: str = "") -> str:
    return f"<w:tc><w:tcPr>{settings}</w:tcPr>{content}</w:tc>"


def docx_text(path: Path, *blocks: str) -> str:
    return parse(path, docx_of("".join(blocks))).text


BOX = f"<w:txbxContent>{paragraph(run('in a box'))}</w:txbxContent>"
CONTENTS = '<w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj>'


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (control(paragraph(run("a form"))), "a form"),
        (paragraph(run("to "), control(run("Ms Lee"))), "to Ms Lee"),
        (paragraph(run("is "), f"<w:ins>{run('not ')}</w:ins>", run("so")), "is not so"),
        (paragraph(f"<w:del>{run('gone', 'delText')}</w:del>", run("here")), "here"),
        (paragraph(f"<w:moveFrom>{run('gone')}</w:moveFrom>", run("here")), "here"),
        (paragraph(run("x = "), "<m:oMath><m:r><m:t>2y</m:t></m:r></m:oMath>"), "x = 2y"),
        (paragraph("<w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r>"), "a\tb\nc"),
        (
            paragraph(
                run("beside"),
                f"<w:r><mc:AlternateContent><mc:Choice>{BOX}</mc:Choice>"
                f"<mc:Fallback>{BOX}</mc:Fallback></mc:AlternateContent></w:r>",
            ),
            "beside\n\nin a box",
        ),
        (control(paragraph(run("Type here")), "<w:showingPlcHdr/>"), ""),
        (control(paragraph(run("Wells 7")), CONTENTS), ""),
        (paragraph(run("Wells 7"), style="toc1"), ""),
    ],
)
def test_docx_wherever_word_puts_text(tmp_path, block, text):
    assert docx_text(tmp_path / "a.docx", block) == text


def test_docx_tables_in_tables_and_merged_cells(tmp_path):
    inner = f"<w:tbl><w:tr>{cell(paragraph(run('deep')))}</w:tr></w:tbl>"
    first = cell(paragraph(run("well")), '<w:vMerge w:val="restart"/>')
    wide = cell(paragraph(run("12 m")), '<w:gridSpan w:val="2"/>')
    rows = (
        first + wide,
        cell(paragraph(), "<w:vMerge/>") + control(cell(inner + paragraph(run("and wet")))),
        cell(paragraph(run("no cell above")), "<w:vMerge/>"),
    )
    table = f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"
    found = docx_text(tmp_path / "a.docx", table)
    assert found == "well | 12 m\n\nwell | deep and wet\n\nno cell above"


def test_docx_whose_first_row_continues_a_cell(tmp_path):
    row = cell(paragraph(run("a")), "<w:vMerge/>") + cell(paragraph(run("b")))
    assert docx_text(tmp_path / "a.docx", f"<w:tbl><w:tr>{row}</w:tr></w:tbl>") == "a | b"


def test_pptx(tmp_path):
    document = parse(tmp_path / "deck.pptx", pptx())
    assert document.title == "Rocks"
    assert [(chunk.page, chunk.heading, chunk.text) for chunk in chunks(document)] == [
        (1, ("Rocks",), "Granite is hard.\n\nSay it slowly."),
        (2, ("Rocks",), "quartz | seven"),
    ]


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [("a.docx", "docx", "python-docx"), ("a.pptx", "pptx", "python-pptx")],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, name, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    wanted = rf"{name}: .* need {package}: pip install 'heddle\[documents\]'"
    with pytest.raises(InputError, match=wanted):
        parse(tmp_path / name, docx() if module == "pptx" else pptx())


def test_epub(tmp_path):
    book = epub("<h1>One</h1><p>first &amp; text</p>", "<h1>Two</h1><p>second text</p>")
    document = parse(tmp_path / "a.epub", book)
    assert document.title == "A Book"
    assert "Contents" not in document.text
    assert [(chunk.heading, chunk.text) for chunk in chunks(document)] == [
        (("One",), "first & text"),
        (("Two",), "second text"),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a readable file of its format"),
        (b"PK\x03\x04 and then nothing", "not a readable file of its format"),
        (archive({"a": "x"}), "not a readable file of its format"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 100, "encrypted or of an old format"),
        (archive({"a": b"\0" * 20_000_000}), "unpacks to 20 MB, .* a zip bomb"),
        (archive({str(n): "x" for n in range(101)}), "101 files in it, .* a zip bomb"),
    ],
)
@pytest.mark.parametrize("name", ["bad.docx", "bad.pptx", "bad.epub"])
def test_an_archive_that_can_not_be_read(tmp_path, name, content, reason):
    with pytest.raises(InputError, match=rf"{name}: {reason}"):
        parse(tmp_path / name, content, archive_entries_max=100)


def test_a_bomb_of_entities_is_not_expanded(tmp_path):
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "lol">{entities}]><x>&e9;</x>'
    files = {"META-INF/container.xml": bomb, "word/document.xml": bomb}
    for name in ("a.epub", "a.docx"):
        with pytest.raises(InputError, match=name):
            parse(tmp_path / name, archive(files))


def test_a_book_in_an_old_encoding(tmp_path):
    page = '<?xml version="1.0" encoding="windows-1251"?><html><body>Жук летит</body></html>'
    book = unpacked(epub("<p>x</p>")) | {"OEBPS/text/c 0.xhtml": page.encode("cp1251")}
    assert parse(tmp_path / "a.epub", archive(book)).text == "Жук летит"


def test_books_that_can_not_be_read(tmp_path):
    with pytest.raises(InputError, match="no chapters in it"):
        parse(tmp_path / "a.epub", epub())
    locked = '<encryption><CipherReference URI="OEBPS/text/c%200.xhtml"/></encryption>'
    with pytest.raises(InputError, match="encrypted"):
        parse(tmp_path / "b.epub", epub("<p>x</p>", encryption=locked))
    fonts = '<encryption><CipherReference URI="OEBPS/font.otf"/></encryption>'
    assert parse(tmp_path / "c.epub", epub("<p>x</p>", encryption=fonts)).text == "x"


def test_what_a_book_spells_as_references_is_cleaned_as_well(tmp_path):
    book = epub("<pre>a&#8232;b&#13;c</pre>")
    assert parse(tmp_path / "a.epub", book).text == "```\na\nb\nc\n```"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'name,depth\nwell,12\n,\n"a, b","two\nlines"\nshort\nlong,1,extra\n'),
        ("a.csv", "\ufeffname;depth\r\nwell;12\r\n;\r\na, b;two lines\r\nshort\r\nlong;1;extra"),
        ("a.tsv", "name\tdepth\nwell\t12\n\na, b\ttwo lines\nshort\nlong\t1\textra"),
    ],
)
def test_csv(tmp_path, name, content):
    assert parse(tmp_path / name, content).text == (
        "name: well\ndepth: 12\n\nname: a, b\ndepth: two lines\n\nname: short"
        "\n\nname: long\ndepth: 1\ncolumn 3: extra"
    )


def test_signs_in_quoted_names_of_columns_delimit_nothing(tmp_path):
    text = '"Price, EUR";"Weight, kg"\n"3,5";"2,0"\n'
    assert parse(tmp_path / "a.csv", text).text == "Price, EUR: 3,5\nWeight, kg: 2,0"
    text = '"name; first\nand last",depth\nwell,12\n'
    assert parse(tmp_path / "b.csv", text).text == "name; first and last: well\ndepth: 12"


def test_the_first_line_of_a_csv_may_name_its_delimiter(tmp_path):
    for first in ("sep=;", '"sep=;"', "SEP=;"):
        text = first + "\r\nname;a, b, c\r\nwell;12"
        assert parse(tmp_path / "a.csv", text).text == "name: well\na, b, c: 12"


def test_csv_with_a_long_cell(tmp_path):
    before, cell = csv.field_size_limit(), "word " * 30_000
    found = parse(tmp_path / "a.csv", f"name,text\nwell,{cell}\n").text
    assert found == f"name: well\ntext: {cell.strip()}"
    with pytest.raises(InputError, match="million characters a document"):
        parse(tmp_path / "a.csv", f"name,text\nwell,{cell}\n", text_chars_max=150_000)
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'name,said\nmill,"no end\nwell,12\n'),
        ("a.tsv", 'name\tsaid\nmill\t"no end\nwell\t12\n'),
        ("a.tsv", 'name\tsaid\nmill\t"no end\nwell\t12\npump\tthe "old" one\n'),
    ],
)
def test_a_lone_quote_takes_in_no_rows_behind_it(tmp_path, caplog, name, content):
    rows = parse(tmp_path / name, content).text.split("\n\n")
    assert rows[:2] == ['name: mill\nsaid: "no end', "name: well\nsaid: 12"]
    assert "a quote in it has no end" in caplog.text


def test_csv_of_few_rows(tmp_path):
    assert parse(tmp_path / "a.csv", "").text == ""
    assert parse(tmp_path / "b.csv", "\n\nonly,names\n").text == "only | names"


def test_csv_that_can_not_be_read(tmp_path):
    with pytest.raises(InputError, match="over the limit of 2 rows"):
        parse(tmp_path / "a.csv", "a,b\n" + "1,2\n" * 3, rows_max=2)
