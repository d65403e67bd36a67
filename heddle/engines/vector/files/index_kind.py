"""The kinds of index a corpus is searched with, and which of them its size and mode ask for."""

from enum import Enum
from typing import Final

EXHAUSTIVE_BELOW: Final = 20_000  # vectors up to which every list is scanned in full: exact
PQ_NPROBE: Final = 96
GRAPH_DEGREE: Final = 32  # edges of a node
HOT_BLOCK_ROWS: Final = 64  # vectors of one list that lie together on a device, in whole blocks
PANORAMA_LEVELS: Final = 6  # pieces of a vector, where its dimensions allow it
PQ_DIMS: Final = (4, 3, 2, 1)  # that share a 4-bit code, the first that divides them all


class SearchMode(Enum):
    """What a corpus's searches promise."""

    AUTO = "auto"  # exact in a small corpus; in a large one nearly, and much faster
    EXACT = "exact"  # the nearest vectors, in a corpus of any size
    GRAPH = "graph"  # a search graph: nearly exact, and many searches of any length side by side


class IndexKind(Enum):
    """How vectors are stored and scanned; each one keeps them in inverted lists."""

    FLAT = "flat"  # whole vectors
    PQ = "pq"  # 4-bit product codes scanned in registers (FastScan), then exact refinement
    PANORAMA = "panorama"  # whole vectors, compared piece by piece until they are out (exact)


def kind_for(count: int, mode: SearchMode) -> IndexKind:
    """Return the kind for `count` vectors."""
    if count < EXHAUSTIVE_BELOW:
        return IndexKind.FLAT
    return IndexKind.PANORAMA if mode is SearchMode.EXACT else IndexKind.PQ


def pq_parts(dims: int) -> int:
    """Return the 4-bit codes of a vector."""
    return dims // next(size for size in PQ_DIMS if dims % size == 0)


def panorama_levels(dims: int) -> int:
    """Return into how many pieces Panorama cuts a vector, 4 to 8.

    Equal ones if any are, of full registers, about six: of 4 to 24 pieces of 384 dimensions six
    were fastest (docs/development/notebook.md).
    """

    def rank(levels: int) -> tuple[bool, bool, int]:
        width, rest = divmod(dims, levels)
        return rest > 0, width % 16 > 0, abs(levels - PANORAMA_LEVELS)

    return min(range(8, 3, -1), key=rank)


def nprobe_for(kind: IndexKind, nlist: int) -> int:
    """Return how many lists a query scans by default: all of them where that makes it exact."""
    return min(PQ_NPROBE, nlist) if kind is IndexKind.PQ else nlist
