"""The clusters that one query scans, in order, and how far it is. Pure."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.early_stop.calibration import Calibration
from heddle.engines.vector.ivf.early_stop.known_hits import KnownHits
from heddle.engines.vector.ivf.early_stop.past_searches import PastSearch
from heddle.engines.vector.ivf.early_stop.scans import Scans
from heddle.engines.vector.ivf.early_stop.stop_rule import StopRule


@dataclass(frozen=True, slots=True)
class Start:
    """A row that begins: whose it is, how many hits it is to find in which state of the corpus."""

    task_id: int
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
    `known` are the hits that it was compared with before its first cluster, None = nothing; `rule`
    says when it may stop, None = not before the last look; `record` is there if it is a sample,
    which goes to its end.
    """

    start: Start
    query: NDArray[np.float32]
    past: PastSearch | None
    lists: NDArray[np.int64]
    distances: NDArray[np.float64]
    sizes: NDArray[np.int64]
    bonuses: NDArray[np.float64]
    looks: NDArray[np.int64]
    calibration: Calibration
    rule: StopRule | None
    record: Record | None
    known: KnownHits | None = None

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
