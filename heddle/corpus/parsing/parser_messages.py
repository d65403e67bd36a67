"""Messages between a process that parses files and its parent: JSON behind its length.

JSON and not pickle: the process has read files that may be hostile, and its answers must not be
able to run anything in its parent.
"""

import json
from dataclasses import asdict
from typing import Any, Final

from heddle.corpus.document import Document, Heading

LENGTH_BYTES: Final = 8
CHAR_BYTES_MAX: Final = 12  # of a character in JSON: two halves of six bytes
REST_BYTES: Final = 64 * 10**6  # of a message besides its text: title, headings, pages

Message = dict[str, Any]


def pack(message: Message) -> bytes:
    """Return a message as it is sent."""
    content = json.dumps(message).encode("ascii")
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def unpack(content: bytes) -> Message:
    """Return a message from what stands behind its length.

    Raises: ValueError: it is none.
    """
    message = json.loads(content)
    if not isinstance(message, dict):
        raise ValueError(f"a {type(message).__name__} is no message")
    return message


def document_fields(document: Document) -> Message:
    """Return a document's fields as JSON can hold them."""
    return asdict(document)


def document_of(fields: Message) -> Document:
    """Return the document with these fields.

    Raises: TypeError, ValueError: they are not a document's.
    """
    headings = tuple(Heading(**heading) for heading in fields.pop("headings"))
    metadata = tuple((str(key), str(value)) for key, value in fields.pop("metadata"))
    pages = tuple(int(page) for page in fields.pop("pages"))
    return Document(**fields, headings=headings, metadata=metadata, pages=pages)
