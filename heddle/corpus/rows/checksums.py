"""Checksums tell a damaged row from what was written. (docs/design/architecture.md#what-lasts)

They are against silent damage, not against somebody who can write the file. A row that an older
Heddle wrote has none and passes unchecked.
"""

from hashlib import blake2b

CHECKSUM_BYTES = 8


def chunk_checksum(*fields: str | int | None) -> bytes:
    """Return the checksum of a chunk's fields: all that is written once and shown later."""
    checksum = blake2b(digest_size=CHECKSUM_BYTES)
    for field in fields:
        encoded = str(field).encode("utf-8")
        checksum.update(len(encoded).to_bytes(8, "little"))
        checksum.update(encoded)
    return checksum.digest()


def vector_checksum(vector: bytes) -> bytes:
    """Return the checksum of a vector as it is stored."""
    return blake2b(vector, digest_size=CHECKSUM_BYTES).digest()


def is_sound(checksum: bytes | None, computed: bytes) -> bool:
    """Whether a row is what was written, by the checksum stored with it; None passes."""
    return checksum is None or checksum == computed
