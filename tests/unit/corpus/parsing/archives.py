"""Makes small EPUBs, DOCX and PPTX files."""

from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

CONTAINER = """<?xml version="1.0"?>
<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>"""

DOCX_NAMES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
}


def archive(files: dict[str, str | bytes]) -> bytes:
    """Return a zip archive."""
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return out.getvalue()


def unpacked(content: bytes) -> dict[str, str | bytes]:
    """Return the files in a zip archive."""
    with ZipFile(BytesIO(content)) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def epub(*chapters: str, title: str = "A Book", **more: str) -> bytes:
    """Return a book whose table of contents comes first and whose chapters follow in order."""
    items = "".join(
        f'<item id="c{n}" href="text/c%20{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in range(len(chapters))
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    book = f"""<package xmlns="http://www.idpf.org/2007/opf"
        xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>{title}</dc:title></metadata>
        <manifest><item id="nav" href="nav.xhtml" properties="nav"
        media-type="application/xhtml+xml"/>{items}</manifest>
        <spine><itemref idref="nav"/>{spine}</spine></package>"""
    files: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": book,
        "OEBPS/nav.xhtml": "<p>Contents</p>",
    }
    for n, chapter in enumerate(chapters):
        files[f"OEBPS/text/c {n}.xhtml"] = (
            f"<?xml version='1.0'?><html><body>{chapter}</body></html>"
        )
    files |= {f"META-INF/{name}.xml": content for name, content in more.items()}
    return archive(files)


def docx() -> bytes:
    """Return a document with a title, two headings, a list and a table."""
    from docx import Document

    word = Document()
    word.core_properties.title = "The Manual"
    word.add_paragraph("Before all headings.")
    word.add_heading("Setup", level=1)
    word.add_paragraph("Turn the key.")
    word.add_paragraph("the first item", style="List Bullet")
    word.add_heading("Limits", level=2)
    table = word.add_table(rows=2, cols=2)
    cells = (cell for row in table.rows for cell in row.cells)
    for cell, text in zip(cells, ("name", "value", "depth", "12"), strict=True):
        cell.text = text
    out = BytesIO()
    word.save(out)
    return out.getvalue()


def docx_of(body: str) -> bytes:
    """Return a document with this XML as its body; `toc1` is the style of tables of contents."""
    from docx import Document
    from docx.enum.style import WD_STYLE_TYPE
    from docx.oxml import parse_xml

    word = Document()
    word.styles.add_style("toc 1", WD_STYLE_TYPE.PARAGRAPH)
    spaces = " ".join(f'xmlns:{prefix}="{name}"' for prefix, name in DOCX_NAMES.items())
    for element in reversed(parse_xml(f"<w:body {spaces}>{body}</w:body>")):
        word.element.body.insert(0, element)
    out = BytesIO()
    word.save(out)
    return out.getvalue()


def pptx() -> bytes:
    """Return two slides: one with a title, a text and notes, one with a table."""
    from pptx import Presentation
    from pptx.util import Inches

    deck = Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Rocks"
    first.placeholders[1].text = "Granite is hard."
    first.notes_slide.notes_text_frame.text = "Say it slowly."
    second = deck.slides.add_slide(deck.slide_layouts[6])
    size = (Inches(1), Inches(1), Inches(4), Inches(1))
    table = second.shapes.add_table(1, 2, *size).table
    table.cell(0, 0).text, table.cell(0, 1).text = "quartz", "seven"
    out = BytesIO()
    deck.save(out)
    return out.getvalue()
