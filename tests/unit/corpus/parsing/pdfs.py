"""Makes small PDFs."""

from collections.abc import Mapping
from io import BytesIO

from pypdf import PdfReader, PdfWriter


def pdf(*pages: str, title: str = "", meanings: Mapping[str, str] | None = None) -> bytes:
    """Return a PDF that shows a line of text on each page; `meanings` are letters for others."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * page} 0 R" for page in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica %s >>"
        % (b"/ToUnicode %d 0 R" % (4 + 2 * count) if meanings else b""),
    ]
    for page, text in enumerate(pages):
        lines = "".join(f"({line}) Tj 0 -14 Td " for line in text.split("\n")) if text else ""
        content = f"BT /F1 12 Tf 72 720 Td {lines}ET".encode("latin-1")
        resources = "<< /Font << /F1 3 0 R >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {resources}"
            f" /Contents {5 + 2 * page} 0 R >>".encode()
        )
        objects.append(_stream(content))
    if meanings:
        objects.append(_stream(_letters(meanings)))
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\n" % (len(objects) + 1)
    out += b"startxref\n%d\n%%%%EOF\n" % start
    return _rewritten(bytes(out), title=title) if title else bytes(out)


def _stream(content: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)


def _letters(meanings: Mapping[str, str]) -> bytes:
    pairs = " ".join(
        f"<{ord(shown):02X}> <{meant.encode('utf-16-be').hex()}>"
        for shown, meant in meanings.items()
    )
    return (
        "12 dict begin begincmap 1 begincodespacerange <00> <FF> endcodespacerange"
        f" {len(meanings)} beginbfchar {pairs} endbfchar endcmap end"
    ).encode()


def encrypted(content: bytes, password: str) -> bytes:
    """Return the PDF with a password."""
    return _rewritten(content, password=password)


def _rewritten(content: bytes, *, title: str = "", password: str | None = None) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(BytesIO(content)))
    if title:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()
