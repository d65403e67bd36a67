"""Chunk KV on disk: one safetensors file for each entry, checked whole when it is read.

The header's metadata holds the record, the model's fingerprint, the layout's version and a CRC-32
over the whole file (with the CRC's own digits as zeros): a cryptographic digest would read more
slowly than a fast disk. What is wrong with a file is never worth keeping: KV can be computed again.
"""

import fcntl
import hashlib
import logging
import os
import re
import zlib
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import safetensors.torch
import torch

from heddle.core.errors import InputError
from heddle.core.own_files import OWNER_ONLY
from heddle.kv.chunk_codec import EncodedKv
from heddle.kv.chunk_entry import StoredChunk
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.disk.chunk_header import (
    LENGTH,
    SUFFIX,
    ChunkFile,
    described,
    header_length,
    metadata_of,
    parsed_header,
    record_of,
)

TRIES = 3
_NO_CRC = "0" * 8
_CRC = re.compile(rb'"crc32":"([0-9a-f]{8})"')

log = logging.getLogger(__name__)


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
        self.folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        for path in self.folder.glob("*.tmp"):
            with suppress(OSError):  # its writer lives and has it locked, or is done by now
                _remove_unless_locked(path)
        return os.access(self.folder, os.W_OK)

    def scan(self, known: Container[bytes]) -> Iterator[ChunkFile]:
        """Yield what the headers of files with unknown keys say, the newest first.

        Unusable files are removed. What the disk refuses to read is logged and left out.
        """
        try:
            paths = [path for path in self.folder.glob(f"*{SUFFIX}") if _key_of(path) not in known]
        except OSError as error:
            log.error("chunk KV in %s can't be listed: %s", self.folder, error)
            return
        for path in sorted(paths, key=_age, reverse=True):
            try:
                yield self._described(path)
            except InputError as error:
                self._discard(path, error)
            except OSError as error:
                log.warning("chunk KV %s is not used: %s", path, error)

    def find(self, key: bytes) -> ChunkFile | None:
        """Return what the header of one entry's file says; None where there is none of use.

        An unusable file is removed.
        """
        path = self._path(key)
        try:
            return self._described(path)
        except InputError as error:
            self._discard(path, error)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("chunk KV %s is not used: %s", path, error)
        return None

    def pack(self, stored: StoredChunk) -> bytes:
        """Return the content of an entry's file."""
        metadata = {
            **metadata_of(stored.record),
            "fingerprint": self._fingerprint,
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
        temporary = self.folder / f"{key.hex()}.{uuid4().hex}.tmp"
        with _locked(temporary) as file:  # until it has its name
            try:
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

    def has(self, key: bytes) -> bool:
        """Whether an entry's file is there now."""
        return self._path(key).exists()

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
        file = described(path)
        self._check(path, file.record, file.fingerprint)
        return file

    def _unpack(self, path: Path, content: bytes) -> StoredChunk:
        length = header_length(content[: LENGTH.size], len(content))
        metadata, _ = parsed_header(content[LENGTH.size : LENGTH.size + length])
        record = record_of(metadata)
        self._check(path, record, metadata.get("fingerprint", ""))
        _check_crc(content, length)
        tensors = safetensors.torch.load(content)
        dtype = getattr(torch, metadata["dtype"])
        return StoredChunk(record, EncodedKv(tensors, dtype, float(metadata["error"])))

    def _check(self, path: Path, record: ChunkRecord, fingerprint: str) -> None:
        if fingerprint != self._fingerprint:
            raise InputError("it belongs to another model")
        if path != self._path(record.key):
            raise InputError("it has the name of another entry")

    def _discard(self, path: Path, error: InputError) -> None:
        log.warning("chunk KV %s is removed: %s", path, error)
        with suppress(OSError):  # on a read-only disk it stays, and is refused again
            path.unlink(missing_ok=True)

    def _path(self, key: bytes) -> Path:
        return self.folder / f"{key.hex()}{SUFFIX}"


def _locked(path: Path) -> BinaryIO:
    """Return a new file that is locked, so that no other store takes it for an abandoned one.

    A process id would say less: other containers count theirs anew, and so does this one later.
    """
    for _ in range(TRIES):
        file = path.open("xb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists():
            return file
        file.close()  # it was removed before it was locked
    raise OSError(f"{path} was removed by others {TRIES} times")


def _remove_unless_locked(path: Path) -> None:
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def _check_crc(content: bytes, header_bytes: int) -> None:
    """Compare a file with its checksum, which was taken with its own digits as zeros."""
    place = _CRC.search(content, LENGTH.size, LENGTH.size + header_bytes)
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
    """Return when a file was written [s]; 0 where the disk doesn't say: it is looked at last."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
