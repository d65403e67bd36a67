"""The file of a graph: checked when it is opened, memory-mapped, replaced atomically.

A header line of JSON, padded to a page, then the arrays, each beginning at a page. The header
says their types, shapes and places, and the checksum of all that follows it.
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InputError, StorageError
from heddle.engines.vector.graph.graph_index import GraphIndex

MAGIC: Final = "heddle-graph-2"
PAGE: Final = 4096
CHECKED_BYTES: Final = 1 << 24
TYPES: Final[dict[str, np.dtype[Any]]] = {
    "vectors": np.dtype("<f2"),
    "neighbours": np.dtype("<i4"),
    "labels": np.dtype("<i8"),
    "entries": np.dtype("<i4"),
}


@dataclass(frozen=True, slots=True)
class GraphHeader:
    """What a graph file says about itself."""

    magic: str
    revision: int
    embedder: str
    sha256: str
    shapes: dict[str, list[int]]

    def offsets(self) -> dict[str, int]:
        """Return where each array begins, and "end" [bytes]."""
        offsets, at = {}, PAGE
        for name, dtype in TYPES.items():
            offsets[name] = at
            at = _paged(at + int(np.prod(self.shapes[name])) * dtype.itemsize)
        return {**offsets, "end": at}


def write_graph(path: Path, index: GraphIndex) -> None:
    """Write a graph durably, then put it in place of what is there.

    Raises:
        StorageError: the disk refused; the old file is as it was.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w+b") as file:
            _write(file, index)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"could not write the graph {path}: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def open_graph(path: Path) -> GraphIndex:
    """Return a graph whose arrays are read from its file as they are needed.

    Raises:
        InputError: it is no graph file, or truncated, or its bytes are not those written.
        StorageError: it can't be read.
    """
    try:
        with path.open("rb") as file:
            header = _header(path, file.read(PAGE))
            size = path.stat().st_size
            if size != header.offsets()["end"]:
                raise InputError(f"{path} is truncated or not a graph file: {size} bytes")
            if _digest(file) != header.sha256:
                raise InputError(f"{path} is corrupt: its checksum is another; build it again")
        arrays = {name: _mapped(path, header, name) for name in TYPES}
    except OSError as error:
        raise StorageError(f"could not read the graph {path}: {error}") from error
    _check(path, arrays)
    return GraphIndex(**arrays, revision=header.revision, embedder=header.embedder)


def _write(file: BinaryIO, index: GraphIndex) -> None:
    file.seek(PAGE)
    shapes = {}
    for name, dtype in TYPES.items():
        array = np.ascontiguousarray(getattr(index, name), dtype)
        shapes[name] = list(array.shape)
        file.write(array.data.cast("B"))
        file.write(bytes(_paged(file.tell()) - file.tell()))
    file.flush()
    header = GraphHeader(MAGIC, index.revision, index.embedder, _digest(file), shapes)
    file.seek(0)
    file.write(json.dumps(asdict(header)).encode().ljust(PAGE))


def _header(path: Path, page: bytes) -> GraphHeader:
    try:
        header = GraphHeader(**json.loads(page))
        sizes = [size for name in TYPES for size in header.shapes[name]]
        if header.magic != MAGIC or not all(isinstance(s, int) and s >= 0 for s in sizes):
            raise ValueError(f"it begins with {header.magic!r}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is no graph file of this version: {error}") from error
    return header


def _check(path: Path, arrays: dict[str, Any]) -> None:
    """Refuse arrays that a search would leave: the checksum says only that nobody touched them."""
    vectors, neighbours, entries = arrays["vectors"], arrays["neighbours"], arrays["entries"]
    count = len(vectors)
    is_sound = (
        vectors.ndim == neighbours.ndim == 2
        and count == len(neighbours) == len(arrays["labels"]) > 0
        and len(entries) > 0
        and -1 <= neighbours.min() <= neighbours.max() < count
        and 0 <= entries.min() <= entries.max() < count
    )
    if not is_sound:
        raise InputError(f"{path} holds a graph whose parts don't fit together; build it again")


def _mapped(path: Path, header: GraphHeader, name: str) -> NDArray[Any]:
    shape = tuple(header.shapes[name])
    offset = header.offsets()[name]
    # Copy-on-write, as a plain array: compiled code makes no difference between it and memory.
    return np.asarray(np.memmap(path, TYPES[name], "c", offset, shape))


def _digest(file: BinaryIO) -> str:
    file.seek(PAGE)
    digest = hashlib.sha256()
    while piece := file.read(CHECKED_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _paged(size: int) -> int:
    return -(-size // PAGE) * PAGE


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
