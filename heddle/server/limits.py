"""How much the HTTP server takes on at once, and how long names and numbers in URLs may be."""

from typing import Final

REQUESTS_MAX: Final = 512
"""Twice what a runtime has in flight; each may hold a body of a mebibyte."""
TENANT_CHARS_MAX: Final = 256
_DIGITS_MAX: Final = 9  # Python refuses to read thousands of digits, and SQLite takes 64 bits


def whole_number(text: str, high: int) -> int | None:
    """Return a number from 1 to `high` that a URL holds; None = it is none, or has 10 digits."""
    if len(text) > _DIGITS_MAX or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if 1 <= number <= high else None
