"""What looks read of searches that may stop early: dense arrays, so a look at many is array work.

Pure.
"""

from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.early_stop.course import Course
from heddle.engines.vector.ivf.early_stop.hit_model import HitModel
from heddle.engines.vector.ivf.early_stop.known_hits import KnownHits
from heddle.engines.vector.ivf.early_stop.orders import CACHED_HITS
from heddle.engines.vector.ivf.early_stop.scans import AHEAD, features_of

NO_COURSE: Final = -1
FIRST_PLACES: Final = 32


class CourseTable:
    """Courses under way, each in a place that is its own until it is over.

    Shapes (c places, w the most clusters of a course so far, t the most looks): distances, sizes
    and bonuses [c, w + AHEAD], anything behind the last cluster; looks [c, t], clusters scanned by
    each; known [c, CACHED_HITS], see `KnownHits`; the others [c], of which `look` is the next look
    and `last` the one after all clusters, `nearest` the distance of the nearest centroid.
    """

    def __init__(self) -> None:
        places = FIRST_PLACES
        self.is_sample, self.knows = np.zeros(places, bool), np.zeros(places, bool)
        self._k, self._width = np.zeros(places, np.int64), np.zeros(places, np.int64)
        self._look, self._last = np.zeros(places, np.int64), np.zeros(places, np.int64)
        self._nearest = np.zeros(places)
        self._rules = np.full(places, None, object)
        self._distances, self._bonuses = np.zeros((places, AHEAD)), np.zeros((places, AHEAD))
        self._sizes = np.zeros((places, AHEAD), np.int64)
        self._looks = np.zeros((places, 1), np.int64)
        self._known = KnownHits.none(places, CACHED_HITS)
        self._courses: list[Course | None] = [None] * places
        self._free = list(range(places))

    _COLUMNS: ClassVar = (
        "is_sample",
        "knows",
        "_k",
        "_width",
        "_look",
        "_last",
        "_nearest",
        "_rules",
        "_distances",
        "_bonuses",
        "_sizes",
        "_looks",
    )

    @property
    def count(self) -> int:
        """Courses under way."""
        return len(self._courses) - len(self._free)

    def put(self, course: Course) -> int:
        """Take a course in that knows nothing yet; return its place."""
        width, looks = len(course.lists), len(course.looks)
        if width + AHEAD > self._distances.shape[1] or looks > self._looks.shape[1]:
            self._widen(width + AHEAD, looks)
        if not self._free:
            self._lengthen()
        place = self._free.pop()
        self._courses[place] = course
        self._rules[place] = course.rule
        self.is_sample[place], self.knows[place] = course.record is not None, False
        self._k[place], self._width[place] = course.start.k, width
        self._look[place], self._last[place] = 0, looks - 1
        self._nearest[place] = course.distances.min()
        self._distances[place, :width] = course.distances
        self._bonuses[place, :width] = course.bonuses
        self._sizes[place, :width] = course.sizes
        self._looks[place, :looks] = course.looks
        return place

    def learn(self, place: int, known: KnownHits) -> None:
        """Let a course know some hits, [1, h] with h no more than CACHED_HITS."""
        self._known.replace(place, known)
        self.knows[place] = True

    def free(self, place: int) -> Course:
        """Let a course go that is over; return it."""
        course = self._courses[place]
        assert course is not None, f"no course is in place {place}"
        self._courses[place] = None
        self._rules[place] = None
        self._free.append(place)
        return course

    def course(self, place: int) -> Course | None:
        """Return who is in a place."""
        return self._courses[place]

    def advance(self, places: NDArray[np.int64]) -> None:
        """Let courses [n] go on to their next look."""
        self._look[places] += 1

    def look(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which look each course comes to next, [n]."""
        return self._look[places]

    def scanned(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many clusters each course has scanned when it comes to its look, [n]."""
        return self._looks[places, self._look[places]]

    def is_at_end(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether that is all of its clusters, [n]."""
        is_at_end: NDArray[np.bool_] = self._look[places] == self._last[places]
        return is_at_end

    def k(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many hits each course is to find, [n]."""
        return self._k[places]

    def known(self, places: NDArray[np.int64]) -> KnownHits:
        """Return what each course knows, [n, CACHED_HITS]; for those that know something."""
        return self._known.of(places)

    def may_stop(self, places: NDArray[np.int64], kth: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether the rule of each course lets it stop at this look, [n].

        Shapes: kth [n] distances to the k-th nearest vector so far, at most `FAR`.
        """
        may_stop = np.zeros(len(places), bool)
        rules = self._rules[places]
        for rule in dict.fromkeys(rules.tolist()):  # few: one for each kind of search
            if rule is not None:
                mine = np.flatnonzero(rules == rule)
                missing = self._missing_ahead(rule.model, places[mine], kth[mine])
                may_stop[mine] = missing <= rule.limit
        return may_stop

    def _missing_ahead(
        self, model: HitModel, places: NDArray[np.int64], kth: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the recall that is expected to be missing at the look of each course, [n]."""
        turns = self.scanned(places)[:, None] + np.arange(AHEAD)
        is_there = turns < self._width[places][:, None]
        rows = places[:, None]
        features = features_of(
            self._distances[rows, turns],
            self._nearest[rows],
            kth[:, None],
            self._sizes[rows, turns],
            self._bonuses[rows, turns],
        )
        expected = np.where(is_there, model.expected(features), 0.0)
        missing: NDArray[np.float64] = expected.sum(axis=1) / self._k[places]
        return missing

    def _widen(self, width: int, looks: int) -> None:
        """Make room for a course of this width and with `looks` looks."""
        wanted = {"_distances": width, "_bonuses": width, "_sizes": width, "_looks": looks}
        for name, wide in wanted.items():
            column = getattr(self, name)
            missing = wide - column.shape[1]
            if missing > 0:
                setattr(self, name, np.pad(column, ((0, 0), (0, missing))))

    def _lengthen(self) -> None:
        """Make room for as many courses again."""
        places = len(self._courses)
        for name in self._COLUMNS:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self._known = KnownHits.stacked([self._known, KnownHits.none(places, CACHED_HITS)])
        self._courses += [None] * places
        self._free += range(places, 2 * places)
