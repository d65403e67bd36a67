"""Rows with equal vectors: the first of them has the edges for all, and a ring leads to the others.

More equal vectors than a row has neighbours would have edges to one another alone: a search that
came to one of them would fill its topM with the others, and find no way on.
"""

import numpy as np
from numpy.typing import NDArray

HASH_SEED = 1234
PIECE_ROWS = 4096  # rows that are hashed at once


def first_equals(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the first row whose vector is, in float16, that of each row, [n].

    Vectors are compared by a hash of 64 bits: if two share it by chance, a search finds both all
    the same.
    Shapes: vectors [n, d].
    """
    factors = np.random.default_rng(HASH_SEED).integers(
        0, 1 << 64, vectors.shape[1], np.uint64, endpoint=False
    )
    hashes = np.empty(len(vectors), np.uint64)
    for first in range(0, len(vectors), PIECE_ROWS):
        piece = slice(first, first + PIECE_ROWS)
        halves = vectors[piece].astype(np.float16) + np.float16(0)  # -0 is 0
        hashes[piece] = halves.view(np.uint16).astype(np.uint64) @ factors
    _, firsts, groups = np.unique(hashes, return_index=True, return_inverse=True)
    return firsts[groups]


def join_equals(neighbours: NDArray[np.int32], firsts: NDArray[np.int64]) -> None:
    """Give rows the edges of the first row with their vector, and one to the next such row.

    The edge to the next takes the place of the last one where no place is free.

    Shapes: neighbours [n, degree], of which the first rows have edges to first rows; firsts [n].
    Mutates: neighbours.
    """
    is_shared = np.bincount(firsts, minlength=len(firsts))[firsts] > 1
    rows = np.flatnonzero(is_shared)
    rows = rows[np.argsort(firsts[rows], kind="stable")]  # a group's together, its first row first
    following = np.roll(rows, -1)
    is_last = firsts[rows] != firsts[following]
    if len(rows):
        is_last[-1] = True
    following[is_last] = firsts[rows[is_last]]
    neighbours[rows] = neighbours[firsts[rows]]
    places = np.minimum((neighbours[rows] >= 0).sum(axis=1), neighbours.shape[1] - 1)
    neighbours[rows, places] = following
