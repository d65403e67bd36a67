"""The header of a chunk KV file: the facts of its entry and its model, without the tensors."""

import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError
from heddle.kv.chunk_attention import ChunkAttention
from heddle.kv.chunk_record import ChunkRecord, ChunkVariant

LAYOUT: Final = "2"
SUFFIX: Final = ".kv.safetensors"
HEADER_BYTES_MAX: Final = 1 << 20
LENGTH: Final = struct.Struct("<Q")  # of the header, in front of it


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A file as its header describes it: the bytes of its tensors, and of all of it."""

    record: ChunkRecord
    fingerprint: str
    nbytes: int
    file_bytes: int


def described(path: Path) -> ChunkFile:
    """Return what a file's header says; the tensors are not read.

    Raises:
        InputError: it is no entry of this layout, or not whole.
        OSError: the disk refuses.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = header_length(file.read(LENGTH.size), size)
        metadata, nbytes = parsed_header(file.read(length))
    if LENGTH.size + length + nbytes != size:
        raise InputError(f"its header describes {nbytes} bytes of tensors")
    return ChunkFile(record_of(metadata), metadata.get("fingerprint", ""), nbytes, size)


def metadata_of(record: ChunkRecord) -> dict[str, str]:
    """Return what a header says of an entry, for `record_of`."""
    return {
        "layout": LAYOUT,
        "key": record.key.hex(),
        "chunk": record.chunk.hex(),
        "tokens": str(record.tokens),
        "base": str(record.base),
        "variant": record.variant.value,
        "context": " ".join(digest.hex() for digest in record.context),
        "sources": " ".join(map(str, record.sources)),
        "attention": "" if record.attention is None else record.attention.pack(),
    }


def record_of(metadata: dict[str, str]) -> ChunkRecord:
    """Return the entry that a header describes.

    Raises:
        InputError: it has another layout, or makes no sense.
    """
    if metadata.get("layout") != LAYOUT:
        raise InputError(f"its layout is {metadata.get('layout')!r}, not {LAYOUT!r}")
    try:
        tokens = int(metadata["tokens"])
        context = tuple(map(bytes.fromhex, metadata["context"].split()))
        attention = metadata["attention"]
        return ChunkRecord(
            key=bytes.fromhex(metadata["key"]),
            chunk=bytes.fromhex(metadata["chunk"]),
            tokens=tokens,
            base=int(metadata["base"]),
            variant=ChunkVariant(metadata["variant"]),
            context=context,
            sources=tuple(map(int, metadata["sources"].split())),
            attention=ChunkAttention.unpack(attention, len(context), tokens) if attention else None,
        )
    except (KeyError, ValueError) as error:
        raise InputError(f"its header makes no sense: {error}") from error


def header_length(prefix: bytes, file_bytes: int) -> int:
    """Return how long a header is, from a file's first bytes.

    Raises:
        InputError: the file is too short for it.
    """
    if len(prefix) < LENGTH.size:
        raise InputError("it is truncated")
    length = int(LENGTH.unpack(prefix)[0])
    if length > min(HEADER_BYTES_MAX, file_bytes - LENGTH.size):
        raise InputError(f"its header should have {length} bytes")
    return length


def parsed_header(header: bytes) -> tuple[dict[str, str], int]:
    """Return a safetensors header's metadata and the bytes of the tensors it describes.

    Raises:
        InputError: it is no such header.
    """
    try:
        fields = json.loads(header)
        metadata = {str(name): str(value) for name, value in fields.pop("__metadata__").items()}
        return metadata, max(int(field["data_offsets"][1]) for field in fields.values())
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"its header can't be read: {error!r}") from error
