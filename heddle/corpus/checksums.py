"""Checksums tell a damaged row from what was written. (docs/architecture.md#what-lasts)

They are against silent damage, not against somebody who can write the file. A row that an older
Heddle wrote has none and passes unchecked.
"""

import logging
from hashlib import blake2b

from heddle.core.errors import StorageError

log = logging.getLogger(__name__)

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


def check_vector(chunk_id: int, vector: bytes, checksum: bytes | None) -> None:
    """Refuse a vector that is not the one that was stored.

    Raises: StorageError: it is damaged.
    """
    if checksum is not None and vector_checksum(vector) != checksum:
        raise damaged(chunk_id, "vector")


def check_text(chunk_id: int, document_id: str, checksum: bytes | None, computed: bytes) -> None:
    """Refuse a chunk whose fields are not those that were stored.

    Raises: StorageError: it is damaged.
    """
    if checksum is not None and computed != checksum:
        # The one who asks may not be the document's owner, so only the log says its name.
        log.error("chunk %d of the document %a is damaged", chunk_id, document_id)
        raise damaged(chunk_id, "text")


def damaged(chunk_id: int, what: str) -> StorageError:
    """Return the error for a chunk that differs from its checksum."""
    return StorageError(
        f"the stored {what} of chunk {chunk_id} is damaged: it differs from its checksum; move the"
        " corpus away and index again, or restore a copy"
    )
