"""How much memory an index takes, by its kind: what a server plans with. Loads no FAISS."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError, StorageError
from heddle.engines.vector.corpus.source import VectorSource
from heddle.engines.vector.files.index_kind import (
    GRAPH_DEGREE,
    HOT_BLOCK_ROWS,
    IndexKind,
    SearchMode,
    kind_for,
    panorama_levels,
    pq_parts,
)
from heddle.engines.vector.files.manifest import graph_path, read_manifest

MemoryLeft = Callable[[], int]
"""Returns how many bytes this process may still take."""

BACK_DEGREE: Final = 4 * GRAPH_DEGREE  # edges to a node that a build collects
LIST_SLACK: Final = 1.3  # of lists in memory over what they hold: FAISS lets them grow by halves
PANORAMA_ROWS: Final = 1024  # FAISS fills each list up to a multiple of these
SAMPLE_ROWS: Final = 64 * 2  # for each root of the vectors: what clusters are trained on


def mode_of(directory: Path) -> SearchMode:
    """Return how a corpus directory is searched; AUTO where nothing was made yet."""
    return SearchMode.GRAPH if graph_path(directory).exists() else list_mode_of(directory)


def list_mode_of(directory: Path) -> SearchMode:
    """Return what a directory's lists are for, also where they can't be read; AUTO = none say."""
    try:
        return SearchMode(read_manifest(directory).mode)
    except (OSError, InputError, ValueError):  # the next to open it makes another
        return SearchMode.AUTO


def kind_of(directory: Path) -> IndexKind | None:
    """Return the kind of a directory's lists; None where nothing was made yet, or can't be read."""
    try:
        manifest = read_manifest(directory)
        return IndexKind(manifest.kind) if manifest.file else None
    except (OSError, InputError, ValueError):  # the next to open it makes another
        return None


def index_bytes(mode: SearchMode, count: int, dims: int) -> int:
    """Return the memory in which `count` vectors are searched [bytes].

    Vectors that lie in a mapped file are counted: without room for them each search would wait
    for the disk.
    """
    if mode is SearchMode.GRAPH:
        labels = 3 * 8  # in the file, and by node and by row in memory
        return count * (2 * dims + 4 * GRAPH_DEGREE + labels)
    kind = kind_for(count, mode)
    if kind is IndexKind.PQ:
        return int(count * (LIST_SLACK * (pq_parts(dims) / 2 + 8) + 8 + 2 * dims))
    if kind is IndexKind.PANORAMA:
        lists = round(2 * math.sqrt(count))
        rows = max(count + lists * PANORAMA_ROWS // 2, lists * PANORAMA_ROWS)
        lengths = 1 + panorama_levels(dims)  # floats: of each vector, and of each of its pieces
        return rows * 4 * (dims + lengths) + 8 * count
    return int(LIST_SLACK * count * (4 * dims + 8))


def device_bytes(mode: SearchMode, count: int, dims: int) -> int:
    """Return what all vectors take on a GPU as hot clusters, in blocks of one list [bytes].

    A graph has no clusters.
    """
    if mode is SearchMode.GRAPH:
        return 0
    number = 2 if kind_for(count, mode) is IndexKind.PQ else 4
    lists = round(2 * math.sqrt(count))
    rows = count + lists * HOT_BLOCK_ROWS // 2  # the last block of a list is half full on average
    return rows * (number * dims + 4 + 8)  # with the vector's length and its label


def build_bytes(mode: SearchMode, count: int, dims: int) -> int:
    """Return the memory that making another index of `count` vectors takes at most [bytes]."""
    if mode is SearchMode.GRAPH:
        edges = 4 * (2 * GRAPH_DEGREE + BACK_DEGREE)
        sample = 2 * dims  # of half the vectors, given back before the float16 ones are made
        return count * (2 * dims + max(edges, sample))
    sample = int(SAMPLE_ROWS * math.sqrt(count)) * 4 * dims
    return index_bytes(mode, count, dims) + sample


def unlimited() -> int:
    """Return more than any machine has."""
    return 1 << 60


def check_memory(source: VectorSource, mode: SearchMode, memory_left: MemoryLeft) -> None:
    """Refuse to make another index of a corpus where that might get this process killed.

    Raises:
        StorageError: it takes more memory than is left.
    """
    needed, left = build_bytes(mode, source.vector_count, source.dims or 0), memory_left()
    if needed > left:
        raise StorageError(
            f"that takes up to {needed >> 20:,} MiB of memory and {left >> 20:,} MiB are left; "
            "free some or raise the memory limit, or run `heddle index` while nothing is served"
        )
