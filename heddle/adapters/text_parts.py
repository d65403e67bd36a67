"""Many texts in lists that a server takes: one with each request."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

TEXTS_MAX: Final = 2_048  # of a request to /v1/embeddings
BYTES_MAX: Final = 960 << 10  # of JSON; a whole body may have 1 MiB


def text_parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in their order, in as few lists as a server takes them; at least one list.

    A text that is larger than a request may be is in a list by itself, which the server refuses.
    """
    part: list[str] = []
    size = 0
    for text in texts:
        added = len(json_bytes(text)) + len(", ")
        if part and (len(part) == TEXTS_MAX or size + added > BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(text)
        size += added
    yield part


def json_bytes(value: object) -> bytes:
    """Return a value as JSON. What is no Unicode is escaped, and the server refuses it by name.

    Raises:
        ValueError, TypeError: JSON can't hold it.
    """
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False).encode("ascii")
