"""An API key as the server knows it: its hash and its rights."""

import hashlib
import math
import secrets
from dataclasses import dataclass
from enum import Enum
from typing import Final

PREFIX: Final = "heddle-"  # by it, scanners of source code find a key that was published
KEY_BYTES: Final = 32


class KeyScope(Enum):
    """What a key may be used for."""

    ASK = "ask"  # questions, searches, the names of workflows
    EMBED = "embed"
    WRITE = "write"  # documents
    ADMIN = "admin"  # metrics; without a tenant of its own, every tenant


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key's entry.

    Args:
        name: stands in the log in the place of the key.
        digest: SHA-256 of the key.
        tenant: the tenant of all its requests; None = each request names one.
        scopes: its rights.
        requests_per_minute: HTTP requests that it may make.
        tokens_per_minute: tokens that models may read and write for it.
    """

    name: str
    digest: bytes
    tenant: str | None
    scopes: frozenset[KeyScope]
    requests_per_minute: float = math.inf
    tokens_per_minute: float = math.inf


def new_key() -> str:
    """Return a new key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(KEY_BYTES)


def digest_of(key: str) -> bytes:
    """Return the SHA-256 of a key.

    Slow hashes with salt protect passwords, which can be guessed. A key is random, so that no
    number of fast guesses finds one, and each request costs one hash.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
