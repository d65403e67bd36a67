"""Chunk KV on disk: one safetensors file for each entry, checked whole when it is read.

The header's metadata holds the record, the model's fingerprint, the layout's version and a CRC-32
over the whole file (with the CRC's own digits as zeros). CRC-32 reads 3.3 GB/s here, sha256 1.4:
less than a fast disk delivers. What is wrong with a file is never worth keeping: KV can be
computed again.
"""

import hashlib
import json
import logging
import os
import re
import struct
import zlib
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import safetensors.torch
import torch

from heddle.core.errors import InputError
from heddle.kv.chunk_codec import EncodedKv
from heddle.kv.chunk_entry import StoredChunk
from heddle.kv.chunk_record import ChunkRecord, ChunkVariant

LAYOUT = "1"
SUFFIX = ".kv.safetensors"
HEADER_BYTES_MAX = 1 << 20
_LENGTH = struct.Struct("<Q")
_NO_CRC = "0" * 8
_CRC = re.compile(rb'"crc32":"([0-9a-f]{8})"')

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A file as its header describes it: the bytes of its tensors, and of all of it."""

    record: ChunkRecord
    nbytes: int
    file_bytes: int


class ChunkFiles:
    """The entry files of one model, in a folder of their own below `directory`.

    Holds no state but paths, so any thread may call it; several processes may share the folder,
    for a file appears and disappears in one piece.
    """

    def __init__(self, directory: Path, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        # Another model's entries are left alone: they may have taken hours to prime.
        self.folder = directory / hashlib.sha256(fingerprint.encode()).hexdigest()[:16]

    def open(self) -> bool:
        """Make the folder, and remove what dead writers left half-written.

        Returns: whether it can be written to.
        Raises:
            OSError: there is no folder, and none can be made.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob("*.tmp"):
            writer = path.name.split(".")[-2]
            if not writer.isdecimal() or not psutil.pid_exists(int(writer)):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        return os.access(self.folder, os.W_OK)

    def scan(self, known: Container[bytes]) -> Iterator[ChunkFile]:
        """Yield what the headers of files with unknown keys say, the newest first.

        Unusable files are removed.
        """
        paths = [path for path in self.folder.glob(f"*{SUFFIX}") if _key_of(path) not in known]
        for path in sorted(paths, key=_age, reverse=True):
            try:
                yield self._described(path)
            except InputError as error:
                self._discard(path, error)
            except OSError as error:
                log.warning("chunk KV %s is not used: %s", path, error)

    def pack(self, stored: StoredChunk) -> bytes:
        """Return the content of an entry's file."""
        record = stored.record
        metadata = {
            "layout": LAYOUT,
            "fingerprint": self._fingerprint,
            "key": record.key.hex(),
            "chunk": record.chunk.hex(),
            "tokens": str(record.tokens),
            "base": str(record.base),
            "variant": record.variant.value,
            "context": " ".join(digest.hex() for digest in record.context),
            "dtype": str(stored.kv.dtype).removeprefix("torch."),
            "error": repr(stored.kv.error),
            "crc32": _NO_CRC,
        }
        content = bytearray(safetensors.torch.save(dict(stored.kv.tensors), metadata))
        place = _CRC.search(content)
        assert place is not None, "safetensors has written the checksum in another form"
        content[place.start(1) : place.end(1)] = b"%08x" % zlib.crc32(content)
        return bytes(content)

    @contextmanager
    def staged(self, key: bytes, content: bytes) -> Iterator[Path]:
        """Write a file durably under a temporary name, for `publish`; then remove what is left.

        Raises:
            OSError: the disk refuses.
        """
        temporary = self.folder / f"{key.hex()}.{os.getpid()}.tmp"
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def publish(self, temporary: Path, key: bytes) -> None:
        """Give a staged file its name, in place of any older one."""
        os.replace(temporary, self._path(key))

    def sync(self) -> None:
        """Make the folder's entries survive a power cut."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, key: bytes) -> StoredChunk | None:
        """Return an entry; None, with a log line, where its file is missing or unusable.

        An unusable file is removed.
        """
        path = self._path(key)
        try:
            return self._unpack(path, path.read_bytes())
        except InputError as error:
            self._discard(path, error)
        except OSError as error:
            log.warning("chunk KV %s is not used: %s", path, error)
        return None

    def remove(self, keys: Iterable[bytes]) -> None:
        """Remove files, those that exist; what the disk refuses to remove is logged."""
        for key in keys:
            try:
                self._path(key).unlink(missing_ok=True)
            except OSError as error:
                log.error("chunk KV %s could not be removed: %s", self._path(key), error)

    def _described(self, path: Path) -> ChunkFile:
        """Return what a file's header says. Raises: InputError, OSError: it can't be used."""
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = _header_length(file.read(_LENGTH.size), size)
            metadata, nbytes = _read_header(file.read(length))
        if _LENGTH.size + length + nbytes != size:
            raise InputError(f"its header describes {nbytes} bytes of tensors")
        return ChunkFile(self._checked_record(path, metadata), nbytes, size)

    def _unpack(self, path: Path, content: bytes) -> StoredChunk:
        length = _header_length(content[: _LENGTH.size], len(content))
        header = content[_LENGTH.size : _LENGTH.size + length]
        metadata, _ = _read_header(header)
        record = self._checked_record(path, metadata)
        _check_crc(content, len(header))
        tensors = safetensors.torch.load(content)
        dtype = getattr(torch, metadata["dtype"])
        return StoredChunk(record, EncodedKv(tensors, dtype, float(metadata["error"])))

    def _checked_record(self, path: Path, metadata: dict[str, str]) -> ChunkRecord:
        if metadata.get("layout") != LAYOUT:
            raise InputError(f"its layout is {metadata.get('layout')!r}, not {LAYOUT!r}")
        if metadata.get("fingerprint") != self._fingerprint:
            raise InputError("it belongs to another model")
        try:
            record = ChunkRecord(
                key=bytes.fromhex(metadata["key"]),
                chunk=bytes.fromhex(metadata["chunk"]),
                tokens=int(metadata["tokens"]),
                base=int(metadata["base"]),
                variant=ChunkVariant(metadata["variant"]),
                context=tuple(map(bytes.fromhex, metadata["context"].split())),
            )
        except (KeyError, ValueError) as error:
            raise InputError(f"its header makes no sense: {error}") from error
        if path != self._path(record.key):
            raise InputError("it has the name of another entry")
        return record

    def _discard(self, path: Path, error: InputError) -> None:
        log.warning("chunk KV %s is removed: %s", path, error)
        with suppress(OSError):  # on a read-only disk it stays, and is refused again
            path.unlink(missing_ok=True)

    def _path(self, key: bytes) -> Path:
        return self.folder / f"{key.hex()}{SUFFIX}"


def _header_length(prefix: bytes, file_bytes: int) -> int:
    if len(prefix) < _LENGTH.size:
        raise InputError("it is truncated")
    length = int(_LENGTH.unpack(prefix)[0])
    if length > min(HEADER_BYTES_MAX, file_bytes - _LENGTH.size):
        raise InputError(f"its header should have {length} bytes")
    return length


def _read_header(header: bytes) -> tuple[dict[str, str], int]:
    """Return a safetensors header's metadata and the bytes of the tensors it describes."""
    try:
        fields = json.loads(header)
        metadata = {str(name): str(value) for name, value in fields.pop("__metadata__").items()}
        return metadata, max(int(field["data_offsets"][1]) for field in fields.values())
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"its header can't be read: {error!r}") from error


def _check_crc(content: bytes, header_bytes: int) -> None:
    """Compare a file with its checksum, which was taken with its own digits as zeros."""
    place = _CRC.search(content, _LENGTH.size, _LENGTH.size + header_bytes)
    if place is None:
        raise InputError("it has no checksum")
    view = memoryview(content)
    crc = zlib.crc32(_NO_CRC.encode(), zlib.crc32(view[: place.start(1)]))
    if int(place[1], 16) != zlib.crc32(view[place.end(1) :], crc):
        raise InputError("its checksum is wrong")


def _key_of(path: Path) -> bytes:
    try:
        return bytes.fromhex(path.name.removesuffix(SUFFIX))
    except ValueError:
        return b""  # not a name of ours: no entry has this key


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
