"""Searches that stop as soon as a promised recall allows it. Pure."""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.early_stop.calibration import Calibration
from heddle.engines.vector.ivf.early_stop.compared_index import ComparedIndex
from heddle.engines.vector.ivf.early_stop.course import Course, Record, Start
from heddle.engines.vector.ivf.early_stop.course_table import NO_COURSE, CourseTable
from heddle.engines.vector.ivf.early_stop.known_hits import with_known
from heddle.engines.vector.ivf.early_stop.looks import (
    LOOKS_PER_DOUBLING,
    lists_per_look,
    looks_at,
)
from heddle.engines.vector.ivf.early_stop.orders import (
    CACHED_HITS,
    Order,
    Past,
    Planned,
    history_bonus,
    soft_order,
)
from heddle.engines.vector.ivf.early_stop.past_searches import PastSearch, PastSearches
from heddle.engines.vector.ivf.early_stop.scans import FAR, Scans
from heddle.engines.vector.ivf.slots import SlotTable
from heddle.engines.vector.recall.self_check import Sample, SelfCheck
from heddle.engines.vector.search import SortedHits

CALIBRATIONS_KEPT: Final = 8


class Begun(NamedTuple):
    """Rows that have begun: lists in the order of their scans [n, w], first looks and courses [n].

    `compared` counts the vectors that they were compared with before.
    """

    lists: NDArray[np.int64]
    stops: NDArray[np.int64]
    courses: NDArray[np.int64]
    compared: int


class TargetStops:
    """Begins searches with what their requests found before, and ends them in time.

    What was found before is compared first, as far as it is still there, and the clusters are
    ordered by it. Searches with the same k, planned clusters and number of clusters share a
    calibration. A row scans up to its next look, then either ends or gets more clusters; a sample
    goes to its end, and is run again exactly.

    Args:
        index: knows its clusters.
        check: runs samples again.
        target: the mean recall that is promised, in (0, 1).
        order: of the planned clusters.
    """

    def __init__(
        self,
        index: ComparedIndex,
        check: SelfCheck,
        target: float,
        order: Order = soft_order,
    ) -> None:
        self._index, self._check = index, check
        self._target, self._order = target, order
        self._calibrations: OrderedDict[tuple[int, int, int], Calibration] = OrderedDict()
        self._pasts = PastSearches()
        self._courses = CourseTable()
        self._places: dict[int, list[int]] = {}  # of each task's rows that have begun

    @staticmethod
    def hits_kept(k: int) -> int:
        """Return how many hits a search has to find that is asked for k: some to remember."""
        return max(k, CACHED_HITS)

    def why_full(self, k: int, planned: int) -> str:
        """Return why searches scan all the clusters that they planned; "" where they may stop."""
        calibration = self.calibration(k, planned)
        why = calibration.why_full
        if len(calibration.looks) == 1:
            why = "which takes no longer than to ask for less"
        if not why:
            return ""
        return f"target recall {self._target:g}: every planned list is scanned: {why}"

    def begin(
        self, starts: Sequence[Start], queries: NDArray[np.float32], lists: NDArray[np.int64]
    ) -> Begun:
        """Compare rows with what they know, and put their lists in order.

        Shapes: queries [n, d]; lists [n, w], by distance.
        """
        distances = self._index.centroid_distances(queries, lists)
        ordered = np.empty_like(lists)
        places = np.empty(len(starts), np.int64)
        compared = 0
        for number, start in enumerate(starts):
            course = self._course(start, queries[number], lists[number], distances[number])
            # Kept from here on: where comparing fails, its task is forgotten, and so is it.
            place = places[number] = self._courses.put(course)
            self._places.setdefault(start.task_id, []).append(place)
            ordered[number] = course.lists
            compared += self._compare(course, place)
        return Begun(ordered, self._courses.scanned(places), places, compared)

    def ended(self, table: SlotTable, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of the rows that came to their stop have ended, [m].

        The others go on to their next look. Mutates: the stops of the table.
        """
        has_course = table.courses[rows] != NO_COURSE
        if not has_course.any():
            return rows
        asked = rows[has_course]
        places = table.courses[asked]
        kth = self._kth(table, asked)
        may_stop = self._courses.may_stop(places, kth)
        is_at_end = self._courses.is_at_end(places)
        self._note(table, asked, kth, may_stop | is_at_end)
        goes_on = ~is_at_end & (self._courses.is_sample[places] | ~may_stop)
        if goes_on.any():
            self._courses.advance(places[goes_on])
            table.extend(asked[goes_on], self._courses.scanned(places[goes_on]))
        has_ended = ~has_course
        has_ended[has_course] = ~goes_on
        ended: NDArray[np.int64] = rows[has_ended]
        return ended

    def with_known(
        self, table: SlotTable, rows: NDArray[np.int64], found: SortedHits
    ) -> SortedHits:
        """Return the hits of rows [m, h] with those that they knew besides, as many."""
        numbers, places = self._knowing(table, rows)
        if not len(numbers):
            return found
        known = self._courses.known(places)
        distances, labels = found[0].copy(), found[1].copy()
        found = distances[numbers], labels[numbers]
        merged = with_known(*found, known.distances, known.chunk_ids)
        width = distances.shape[1]
        distances[numbers], labels[numbers] = merged[0][:, :width], merged[1][:, :width]
        return distances, labels

    def finish(
        self, table: SlotTable, rows: NDArray[np.int64], labels: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Remember what rows have found; return how many of their hits were known before, [m].

        Shapes: labels [m, h], `hits_kept` at least, the nearest first.
        """
        known = np.zeros(len(rows), np.int64)
        for number, place in enumerate(table.courses[rows].tolist()):
            if place == NO_COURSE:
                continue
            course = self._courses.free(place)
            if course.past is not None:
                hits = labels[number, : course.start.k]
                known[number] = np.isin(hits[hits >= 0], course.past.hits).sum()
            hits = labels[number, :CACHED_HITS].copy()
            self._pasts.add(course.start.request_id, PastSearch(course.query, hits))
            if course.record is not None:
                self._check.add(self._sample(course, course.record))
        return known

    def forget(self, task_id: int) -> None:
        """Give up the rows of a task that are under way."""
        for place in self._places.pop(task_id, ()):
            course = self._courses.course(place)
            if course is None or course.start.task_id != task_id:
                continue  # it is over, and another may have its place
            self._courses.free(place)
            if course.record is not None:
                self._check.drop()

    def calibration(self, k: int, planned: int) -> Calibration:
        """Return the calibration of searches for k hits that plan this many clusters."""
        key = (k, planned, len(self._index.list_sizes))
        if key not in self._calibrations:
            if len(self._calibrations) == CALIBRATIONS_KEPT:
                self._calibrations.popitem(last=False)
            apart = lists_per_look(
                self._index.vectors_per_look, float(self._index.list_sizes.mean())
            )
            self._calibrations[key] = Calibration(
                self._target, looks_at(planned, apart, LOOKS_PER_DOUBLING)
            )
        self._calibrations.move_to_end(key)
        return self._calibrations[key]

    def _course(
        self,
        start: Start,
        query: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
    ) -> Course:
        past = self._pasts.nearest(start.request_id, query)
        before = None if past is None else Past(past.query, self._index.lists_of(past.hits))
        bonuses = history_bonus(lists, query, before)
        turns = self._order(Planned(lists, distances, bonuses, before))
        lists = lists[turns]
        calibration = self.calibration(start.k, len(lists))
        rule = None if calibration.why_full else calibration.rule
        looks = calibration.looks
        is_sample = self._check.wants(eager=calibration.rule is None and len(looks) > 1)
        if not is_sample and rule is None:
            looks = looks[-1:]
        return Course(
            start,
            query,
            past,
            lists,
            np.sqrt(distances[turns].astype(np.float64)),
            self._index.list_sizes[lists],
            bonuses[turns],
            looks,
            calibration,
            rule,
            Record() if is_sample else None,
        )

    def _compare(self, course: Course, place: int) -> int:
        """Compare a course with what its request knows; return with how many vectors."""
        # Where every list is scanned in the end, nothing is gained by what is known.
        if course.past is None or len(course.looks) == 1:
            return 0
        course.known = self._index.known(course.query[None], course.past.hits)
        self._courses.learn(place, course.known)
        return course.known.vectors

    def _knowing(
        self, table: SlotTable, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which of the rows know hits, by their number, [m], and their courses, [m]."""
        places = table.courses[rows]
        numbers = np.flatnonzero((places != NO_COURSE) & self._courses.knows[places])
        return numbers, places[numbers]

    def _kth(self, table: SlotTable, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the distance of the k-th nearest vector that each row has, at most `FAR`, [n]."""
        distances = np.sort(table.distances[rows], axis=1)
        numbers, places = self._knowing(table, rows)
        if len(numbers):
            known = self._courses.known(places)
            heaps = (table.distances[rows[numbers]], table.labels[rows[numbers]])
            merged, _ = with_known(*heaps, known.distances, known.labels)
            distances[numbers] = merged[:, : distances.shape[1]]
        k = self._courses.k(table.courses[rows])
        kth: NDArray[np.float32] = distances[np.arange(len(k)), k - 1]
        return np.minimum(np.sqrt(np.maximum(kth.astype(np.float64), 0.0)), FAR)

    def _note(
        self,
        table: SlotTable,
        rows: NDArray[np.int64],
        kth: NDArray[np.float64],
        may_end: NDArray[np.bool_],
    ) -> None:
        """Record what the samples among rows [n] have found at this look."""
        places = table.courses[rows]
        looks = self._courses.look(places)
        for number in np.flatnonzero(self._courses.is_sample[places]).tolist():
            course = self._courses.course(int(places[number]))
            assert course is not None, "a row names a course that is over"
            record = course.record
            assert record is not None, "a sample has no record"
            row = rows[number : number + 1]
            heaps = (table.distances[row], table.labels[row])
            found, _ = self.with_known(
                table, row, self._index.hits(table.queries[row], *heaps, table.k)
            )
            record.kth.append(float(kth[number]))
            record.found.append(found[0, : course.start.k].copy())
            if record.ended is None and may_end[number]:
                record.ended = int(looks[number])

    def _sample(self, course: Course, record: Record) -> Sample:
        assert record.ended is not None, "a sample goes to its end"
        return Sample(
            course.query[None],
            np.array(record.found),
            record.ended,
            course.start.revision,
            partial(self._learn, course, record),
        )

    def _learn(
        self,
        course: Course,
        record: Record,
        recalls: NDArray[np.float64],
        labels: NDArray[np.int64],
    ) -> None:
        assert record.ended is not None, "a sample goes to its end"
        if len(course.looks) == 1:
            return
        scan = self._scan(course, record, recalls, labels)
        stopped = not course.calibration.why_full
        course.calibration.add(scan, record.ended, by_rule=course.rule is not None)
        if stopped == bool(course.calibration.why_full):
            self._check.start_over()

    def _scan(
        self,
        course: Course,
        record: Record,
        recalls: NDArray[np.float64],
        labels: NDArray[np.int64],
    ) -> Scans:
        """Return a sample as its calibration reads it, by its recalls [c] and exact hits [k]."""
        wanted = labels[labels >= 0]
        if course.known is not None:  # no list is scanned for these
            wanted = wanted[~np.isin(wanted, course.known.chunk_ids)]
        return course.scan(record, recalls, self._index.lists_of(wanted))
