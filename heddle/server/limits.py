"""How much the HTTP server takes on at once."""

from typing import Final

REQUESTS_MAX: Final = 512
"""Twice what a runtime has in flight; each may hold a body of a mebibyte."""
