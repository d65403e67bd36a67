"""The file of a graph: checked when it is opened, read into memory, replaced atomically.

A header line of JSON, padded to a page, then the arrays, each beginning at a page. The header
says their types, shapes and places, and the checksum of all that follows it.
"""

import hashlib
import json
import math
import mmap
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InputError, StorageError
from heddle.core.files.file_memory import file_memory
from heddle.core.own_files import OWNER_ONLY
from heddle.corpus.sqlite.folder_lock import locked
from heddle.engines.vector.files.durable_file import remove_abandoned, write_durably
from heddle.engines.vector.graph.graph_header import (
    MAGIC,
    PAGE,
    TYPES,
    GraphHeader,
    paged,
    read_header,
)
from heddle.engines.vector.graph.graph_index import GraphIndex

CHECKED_BYTES: Final = 1 << 24


def write_graph(path: Path, index: GraphIndex) -> None:
    """Write a graph durably, then put it in place of what is there.

    Raises:
        StorageError: the disk refused; the old file is as it was.
    """
    try:
        path.parent.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        with locked(path.parent):
            write_durably(path, lambda temporary: _write(temporary, index))
            remove_abandoned(path.parent)
    except OSError as error:
        raise StorageError(f"could not write the graph {path}: {error}") from error


def open_graph(path: Path) -> GraphIndex:
    """Return a graph whose arrays lie in huge pages, or are mapped (`file_memory`).

    Raises:
        InputError: it is no graph file, or truncated, or its bytes are not those written.
        StorageError: it can't be read.
    """
    try:
        with locked(path.parent, shared=True):  # else it may be replaced between two looks at it
            header = read_header(path)
            with path.open("rb") as file:
                if _digest(file) != header.sha256:
                    raise InputError(f"{path} is corrupt: its checksum is another; build it again")
            memory = file_memory(path)
        arrays = {name: _array(memory, header, name) for name in TYPES}
    except OSError as error:
        raise StorageError(f"could not read the graph {path}: {error}") from error
    _check(path, arrays)
    return GraphIndex(
        **arrays, revision=header.revision, embedder=header.embedder, origin=header.origin
    )


def _write(path: Path, index: GraphIndex) -> None:
    with path.open("w+b") as file:
        file.seek(PAGE)
        shapes = {}
        for name, dtype in TYPES.items():
            array = np.ascontiguousarray(getattr(index, name), dtype)
            shapes[name] = list(array.shape)
            file.write(array.data.cast("B"))
            file.write(bytes(paged(file.tell()) - file.tell()))
        file.flush()
        digest = _digest(file)
        header = GraphHeader(MAGIC, index.revision, index.embedder, digest, shapes, index.origin)
        file.seek(0)
        file.write(json.dumps(asdict(header)).encode().ljust(PAGE))


def _check(path: Path, arrays: dict[str, Any]) -> None:
    """Refuse arrays that lead a search out of bounds: a checksum shows only that none changed."""
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


def _array(memory: mmap.mmap, header: GraphHeader, name: str) -> NDArray[Any]:
    shape = tuple(header.shapes[name])
    flat = np.frombuffer(memory, TYPES[name], math.prod(shape), header.offsets()[name])
    return flat.reshape(shape)


def _digest(file: BinaryIO) -> str:
    file.seek(PAGE)
    digest = hashlib.sha256()
    while piece := file.read(CHECKED_BYTES):
        digest.update(piece)
    return digest.hexdigest()
