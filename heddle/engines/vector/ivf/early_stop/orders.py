"""In which order a search scans its clusters, by what the one before it found. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

CACHED_HITS: Final = 20  # that are kept of a search, as in the paper
BONUS: Final = 0.4  # squared distance that hits in a cluster are worth at most, times their log


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """What the search before left: its query [d] and the clusters of its CACHED_HITS nearest hits
    [h], one for each hit, -1 = not known."""

    query: NDArray[np.float32]
    hit_lists: NDArray[np.int64]


def history_bonus(
    lists: NDArray[np.int64], query: NDArray[np.float32], past: Past | None
) -> NDArray[np.float64]:
    """Return how much nearer each cluster counts for what was found there before, [w].

    It grows with the hits and fades with the distance of the two queries: to nothing at 1, which
    on the unit sphere is an angle of 60 degrees.
    """
    if past is None:
        return np.zeros(len(lists))
    closeness = max(0.0, 1.0 - float(np.linalg.norm(query - past.query)))
    hits = (lists[:, None] == past.hit_lists).sum(axis=1)
    bonuses: NDArray[np.float64] = BONUS * closeness * np.log1p(hits)
    return bonuses


class Planned(NamedTuple):
    """The clusters that a search plans, by distance, and the search before it, if there is one.

    Shapes: lists, squared distances to the centroids, and bonuses, see `history_bonus`, all [w].
    """

    lists: NDArray[np.int64]
    distances: NDArray[np.float32]
    bonuses: NDArray[np.float64]
    past: Past | None


Order = Callable[[Planned], NDArray[np.int64]]
"""Returns the turns of planned clusters, [w]."""


def soft_order(planned: Planned) -> NDArray[np.int64]:
    """Return the turns of clusters by their distances, each nearer by its bonus, [w].

    Source: HedraRAG §4.3. Deviates: what was found there moves a cluster forward, not to the
        front, so that a query that has drifted away loses nothing.
    """
    return np.argsort(planned.distances - planned.bonuses, kind="stable")
