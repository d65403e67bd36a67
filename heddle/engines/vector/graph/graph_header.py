"""What a graph file says about itself: read without its arrays, and without FAISS or Numba."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from heddle.core.errors import InputError, StorageError
from heddle.engines.vector.corpus.source import OTHER_ORIGIN, VectorSource

MAGIC: Final = "heddle-graph-2"
PAGE: Final = 4096
TYPES: Final[dict[str, np.dtype[Any]]] = {
    "vectors": np.dtype("<f2"),
    "neighbours": np.dtype("<i4"),
    "labels": np.dtype("<i8"),
    "entries": np.dtype("<i4"),
}


@dataclass(frozen=True, slots=True)
class GraphHeader:
    """A graph's revision, embedder, checksum, and the shapes of its arrays."""

    magic: str
    revision: int
    embedder: str
    sha256: str
    shapes: dict[str, list[int]]
    origin: str = ""  # of the corpus; files of older versions have none

    @property
    def nodes(self) -> int:
        """Vectors in the graph."""
        return self.shapes["vectors"][0]

    def offsets(self) -> dict[str, int]:
        """Return where each array begins, and "end" [bytes]."""
        offsets, at = {}, PAGE
        for name, dtype in TYPES.items():
            offsets[name] = at
            at = paged(at + int(np.prod(self.shapes[name])) * dtype.itemsize)
        return {**offsets, "end": at}

    def check_fits(self, source: VectorSource) -> None:
        """Refuse a graph of another corpus state or embedder.

        Raises:
            InputError: with the reason.
        """
        if self.embedder != repr(source.embedder):
            raise InputError(f"it was made by {self.embedder}, the corpus by {source.embedder!r}")
        if self.origin != source.origin:
            raise InputError(OTHER_ORIGIN)
        if self.revision > source.revision:
            raise InputError(
                f"it covers revision {self.revision}, the corpus is at {source.revision}"
            )
        if self.shapes["vectors"][1] != source.dims:
            dims = self.shapes["vectors"][1]
            raise InputError(f"it holds {dims}-d vectors, the corpus {source.dims}-d")


def read_header(path: Path) -> GraphHeader:
    """Return what a graph file says about itself; its arrays are not looked at.

    Raises:
        InputError: it is no graph file of this version, or truncated.
        StorageError: it can't be read.
    """
    try:
        with path.open("rb") as file:
            header = _header(path, file.read(PAGE))
        size = path.stat().st_size
    except OSError as error:
        raise StorageError(f"could not read the graph {path}: {error}") from error
    if size != header.offsets()["end"]:
        raise InputError(f"{path} is truncated or not a graph file: {size} bytes")
    return header


def paged(size: int) -> int:
    """Return a size rounded up to whole pages."""
    return -(-size // PAGE) * PAGE


def _header(path: Path, page: bytes) -> GraphHeader:
    try:
        header = GraphHeader(**json.loads(page))
        sizes = [size for name in TYPES for size in header.shapes[name]]
        if header.magic != MAGIC or not all(isinstance(s, int) and s >= 0 for s in sizes):
            raise ValueError(f"it begins with {header.magic!r}")
        if len(header.shapes["vectors"]) != 2:
            raise ValueError(f"its vectors are {header.shapes['vectors']}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is no graph file of this version: {error}") from error
    return header
