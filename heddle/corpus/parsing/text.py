"""Plain text: the file's name is the title."""

from collections.abc import Iterator
from pathlib import Path

from heddle.corpus.document import Document
from heddle.corpus.parsing.decoding import decode
from heddle.corpus.parsing.file_reading import name_without_suffix, read_whole
from heddle.corpus.parsing.limits import ParseLimits


def parse_text(path: Path, limits: ParseLimits) -> Iterator[Document]:
    """Give the file as one document.

    Raises: InputError: it is missing, unreadable, too large or binary.
    """
    text = decode(read_whole(path, limits), path)
    yield Document(str(path), name_without_suffix(path), text, str(path))
