"""PDF, through pypdf: the text of its pages; pictures of text need OCR first."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from heddle.core.errors import InputError
from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import clean
from heddle.corpus.parsing.file_reading import read_whole
from heddle.corpus.parsing.limits import ParseLimits

# A word that was hyphenated at the end of a line.
_HYPHENATED = re.compile(r"(?<=[a-zà-ÿ])-\n(?=[a-zà-ÿ])")


def parse_pdf(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the file as one document; pages are paragraphs.

    Raises: InputError: it is missing, too large, encrypted, damaged, or has no text in it.
    """
    title, text = _title_and_text(read_whole(path, limits), path)
    if not text.strip():
        raise InputError(f"{path}: no text in it: OCR it first (for example with ocrmypdf)")
    yield Document(str(path), title or path.stem, text, str(path))


def _title_and_text(content: bytes, path: Path) -> tuple[str, str]:
    from pypdf import PdfReader  # late: only those who index PDFs pay for its import

    try:
        reader = PdfReader(BytesIO(content))
        # Many PDFs are encrypted with an empty password, only to forbid printing.
        if reader.is_encrypted and not reader.decrypt(""):
            raise InputError(f"{path}: encrypted; save it without a password first")
        pages = [page.extract_text().strip() for page in reader.pages]
        title = str(reader.metadata.title or "") if reader.metadata else ""
    except InputError:
        raise
    except Exception as error:
        # On a damaged file pypdf raises its own errors and whatever its parsing runs into.
        reason = str(error) or type(error).__name__
        raise InputError(f"{path}: not a readable PDF: {reason}; open and save it anew") from error
    text = clean("\n\n".join(pages))
    return " ".join(clean(title).split()), _HYPHENATED.sub("", text)
