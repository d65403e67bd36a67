"""After how many clusters a search asks whether it may stop. Pure."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

LOOKS_PER_DOUBLING: Final = 4  # of the lists scanned: with fewer, searches stop later than they may
FIRST: Final = 4  # clusters before the first question: after fewer the answer is no


def lists_per_look(vectors_per_look: int, vectors_per_list: float) -> int:
    """Return how many lists are scanned in the time that a look takes."""
    return math.ceil(vectors_per_look / max(1.0, vectors_per_list))


def looks_at(lists: int, lists_per_look: int, per_doubling: int = 2) -> NDArray[np.int64]:
    """Return after how many of its clusters a search is looked at.

    So often (1, 2 or 4 times) for each doubling, but only where that many clusters were scanned
    since the look before: asking costs as much as scanning them. The last look is after all
    clusters.
    """
    looks, step, before = [], FIRST, 0
    while step < lists:
        for turn in range(step, 2 * step, step // per_doubling):
            if turn - before >= lists_per_look and lists - turn >= lists_per_look:
                looks.append(turn)
                before = turn
        step *= 2
    return np.array([*looks, lists], np.int64)
