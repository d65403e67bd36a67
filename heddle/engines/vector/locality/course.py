"""The clusters that one query scans, in order, and how far it is. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.locality.calibration import Calibration
from heddle.engines.vector.locality.hit_model import HitModel
from heddle.engines.vector.locality.known_hits import KnownHits
from heddle.engines.vector.locality.past_searches import PastSearch
from heddle.engines.vector.locality.scans import AHEAD, FAR, Scans, features_of
from heddle.engines.vector.locality.stop_rule import StopRule


class RowKey(NamedTuple):
    """A row of a task."""

    task_id: int
    row: int


@dataclass(frozen=True, slots=True)
class Start:
    """A row that begins: whose it is, how many hits it is to find in which state of the corpus."""

    key: RowKey
    request_id: int
    k: int
    revision: int


@dataclass(slots=True, eq=False)
class Record:
    """What a sample has found at each look so far: distances to the k-th, and of all hits [k].

    `ended` is the look at which it would have stopped, None = not yet.
    """

    kth: list[float] = field(default_factory=list)
    found: list[NDArray[np.float32]] = field(default_factory=list)
    ended: int | None = None


@dataclass(slots=True, eq=False)
class Course:
    """One query on its way through its clusters.

    Shapes: query [d]; lists, distances (plain, to the centroids), sizes and bonuses [w]; looks [c].
    `known` is what it was compared with before its first cluster, None = nothing; `look` is the
    next look; `rule` says when it may stop, None = not before the last; `record` is
    there if it is a sample, which goes to its end.
    """

    start: Start
    query: NDArray[np.float32]
    past: PastSearch | None
    known: KnownHits | None
    lists: NDArray[np.int64]
    distances: NDArray[np.float64]
    sizes: NDArray[np.int64]
    bonuses: NDArray[np.float64]
    looks: NDArray[np.int64]
    calibration: Calibration
    rule: StopRule | None
    record: Record | None
    look: int = 0

    @property
    def scanned(self) -> int:
        """Clusters that it has scanned when it comes to its next look."""
        return int(self.looks[self.look])

    @property
    def is_at_end(self) -> bool:
        """Whether that is all of them."""
        return self.look == len(self.looks) - 1

    def scan(
        self, record: Record, recalls: NDArray[np.float64], hit_lists: NDArray[np.int64]
    ) -> Scans:
        """Return it as a calibration reads it, by the lists of the exact hits to be found [h]."""
        hits = (self.lists[:, None] == hit_lists).sum(axis=1)
        return Scans(
            self.start.k,
            self.looks,
            self.distances[None],
            self.sizes[None],
            self.bonuses[None],
            hits[None],
            np.array([record.kth]),
            recalls[None],
        )


def missing_ahead(
    model: HitModel, courses: Sequence[Course], kth: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the recall that is expected to be missing at the next look of each course, [n].

    Shapes: kth [n] distances to the k-th nearest vector so far, at most `FAR`.
    """
    shape = (len(courses), AHEAD)
    distances, bonuses = np.full(shape, FAR), np.zeros(shape)
    sizes = np.zeros(shape, np.int64)
    is_there = np.zeros(shape, bool)
    for row, course in enumerate(courses):
        ahead = slice(course.scanned, course.scanned + AHEAD)
        stop = len(course.distances[ahead])
        distances[row, :stop] = course.distances[ahead]
        sizes[row, :stop] = course.sizes[ahead]
        bonuses[row, :stop] = course.bonuses[ahead]
        is_there[row, :stop] = True
    nearest = np.array([[course.distances.min()] for course in courses])
    expected = model.expected(features_of(distances, nearest, kth[:, None], sizes, bonuses))
    wanted = np.array([course.start.k for course in courses])
    missing: NDArray[np.float64] = np.where(is_there, expected, 0.0).sum(axis=1) / wanted
    return missing
