"""Runs a share of the searches again, exactly, when nothing else is to do. Pure."""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.results import RecallEstimate
from heddle.engines.vector.recall.exact_index import ExactIndex
from heddle.engines.vector.recall.recall_window import RecallWindow

log = logging.getLogger(__name__)

SHARE: Final = 1 / 64  # of the queries
OPEN_MAX: Final = 8  # samples at once; while this many wait for idle time, none is taken
WINDOW: Final = 512
ROUNDING: Final = 1e-6  # of a squared distance: two ways to sum it

OnExact = Callable[[NDArray[np.float64], NDArray[np.int64]], None]
"""Hears the recall of a sample at each look [c], and the chunks that it should have found [k]."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A search that has ended and is to be run again exactly.

    Shapes: query [1, d], prepared; found [c, k] squared distances of its hits at each look at it,
    ascending, inf = none; `ended` is the look that its answer is from.
    """

    query: NDArray[np.float32]
    found: NDArray[np.float32]
    ended: int
    revision: int
    on_exact: OnExact | None = None


@dataclass(slots=True, eq=False)
class ExactRun:
    """A sample whose exact answer is being found: where it goes on, and its heaps [1, k]."""

    sample: Sample
    next: int = 0
    distances: NDArray[np.float32] = field(init=False)
    labels: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        shape = (1, self.sample.found.shape[1])
        self.distances = np.full(shape, np.inf, np.float32)
        self.labels = np.full(shape, -1, np.int64)

    def recalls(self) -> NDArray[np.float64]:
        """Return the recall at each look, [c]; a hit as near as the last exact one is as good."""
        exact = self.distances[0][self.labels[0] >= 0]
        if not len(exact):
            return np.ones(len(self.sample.found))
        as_near = self.sample.found <= exact.max() * (1 + ROUNDING) + ROUNDING
        found: NDArray[np.float64] = np.minimum(as_near.sum(axis=1) / len(exact), 1.0)
        # More clusters may push a hit out of the candidates: what gets lost was not found.
        return np.minimum.accumulate(found[::-1])[::-1]


class SelfCheck:
    """Chooses searches by a seeded draw and estimates the recall of the index: `estimate`.

    Args:
        index: answers exactly, piece by piece.
        share: of the queries that are run again.
        seed: of the choice.
    """

    def __init__(self, index: ExactIndex, share: float = SHARE, seed: int = 0) -> None:
        self._index = index
        self._share = share
        self._draws = np.random.default_rng(seed)
        self._open = 0
        self._runs: deque[ExactRun] = deque()
        self._window = RecallWindow(WINDOW)
        self.estimate: RecallEstimate | None = None  # None before the first was run again

    @property
    def has_work(self) -> bool:
        """Whether a sample waits for its exact answer."""
        return bool(self._runs)

    def wants(self, *, eager: bool = False) -> bool:
        """Decide whether a search is a sample; the caller then adds it, or drops it.

        `eager` takes all for which there is room.
        """
        is_drawn = self._draws.random() < self._share
        is_taken = (eager or is_drawn) and self._open < OPEN_MAX
        self._open += is_taken
        return is_taken

    def add(self, sample: Sample) -> None:
        """Take a search that has ended."""
        self._runs.append(ExactRun(sample))

    def drop(self) -> None:
        """Give up a search that never ended."""
        self._open -= 1

    def start_over(self) -> None:
        """Forget what searches found so far: from now on they end in another way."""
        self._window.clear()
        self.estimate = None

    def index_changes(self) -> None:
        """Give up what waits for its exact answer: the index it was found in is going.

        Another index may take its place at the same revision, so that does not tell them apart.
        """
        self._open -= len(self._runs)
        self._runs.clear()

    def advance(self) -> int:
        """Carry the oldest sample on by a piece; return how many vectors it was compared with.

        A sample is given up when the index has followed the corpus while its search went on.
        """
        run = self._runs[0]
        if run.sample.revision != self._index.revision:
            self._end()
            return 0
        try:
            piece = self._index.compare_piece(run.sample.query, run.next, run.distances, run.labels)
        except Exception:
            log.exception("a search could not be run again exactly")
            self._end()
            return 0
        run.next = piece.next
        if not piece.next:
            self._end()
            recalls = run.recalls()
            self._window.add(float(recalls[run.sample.ended]))
            self.estimate = self._window.estimate
            if run.sample.on_exact is not None:
                run.sample.on_exact(recalls, run.labels[0])
        return piece.compared

    def _end(self) -> None:
        self._runs.popleft()
        self._open -= 1
