"""What the corpus store hands out and takes in, one frozen record each."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class EmbedderStamp:
    """Which model made the vectors; `dtype` is the one it computed in, e.g. "float32"."""

    model: str
    dims: int
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class VectorBatch:
    """Searchable vectors. Shapes: chunk_ids [n] int64, vectors [n, d] float32, C-contiguous."""

    chunk_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PendingChunk:
    """A chunk that has no vector yet."""

    chunk_id: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class CorpusStats:
    """How much the corpus holds.

    `documents` counts ids, searchable or not; `chunks` the chunks of all versions; `vectors`
    the chunks that have one and `pending` the texts that wait for theirs, equal ones once; `twins`
    the chunks that are found by way of an equal one; `outdated` the documents that an older Heddle
    has cut; `bytes` the files on disk.
    """

    documents: int
    chunks: int
    vectors: int
    pending: int
    bytes: int
    twins: int = 0
    outdated: int = 0


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """A document as a list shows it; `file` is the one that brought it, "" = none did."""

    id: str
    tenant: str
    title: str
    file: str
    collection: str
    chunks: int


def outermost(paths: Iterable[str]) -> list[str]:
    """Return paths that lie in no other of them, sorted."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: Path(path).parts):
        if not any(Path(path).is_relative_to(outer) for outer in kept):
            kept.append(path)
    return kept


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was when all its documents were taken in; `name` is its absolute path.

    `chunking` says how they were cut.
    """

    name: str
    sha256: str
    size: int
    mtime_ns: int
    chunking: str = ""


class PutOutcome(Enum):
    """What putting a document did."""

    ADDED = "added"
    CHANGED = "changed"
    DESCRIBED = "described"  # its text is the same, its metadata is not
    UNCHANGED = "unchanged"
