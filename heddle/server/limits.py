"""How much the HTTP server takes on at once, and how long a tenant's name may be."""

from typing import Final

REQUESTS_MAX: Final = 512
"""Twice what a runtime has in flight; each may hold a body of a mebibyte."""
TENANT_CHARS_MAX: Final = 256
