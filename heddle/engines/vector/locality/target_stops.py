"""Searches that stop as soon as a promised recall allows it. Pure."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.locality.calibration import Calibration
from heddle.engines.vector.locality.course import Course, Record, RowKey, Start, missing_ahead
from heddle.engines.vector.locality.index_port import ComparedIndex
from heddle.engines.vector.locality.known_hits import KnownHits, with_known
from heddle.engines.vector.locality.looks import looks_at
from heddle.engines.vector.locality.orders import (
    CACHED_HITS,
    Order,
    Past,
    Planned,
    history_bonus,
    soft_order,
)
from heddle.engines.vector.locality.past_searches import PastSearch, PastSearches
from heddle.engines.vector.locality.scans import FAR
from heddle.engines.vector.locality.self_check import Sample, SelfCheck
from heddle.engines.vector.search import SortedHits
from heddle.engines.vector.slots import SlotTable

CALIBRATIONS_KEPT: Final = 8
LOOKS_PER_DOUBLING: Final = 4  # of the lists scanned: with fewer, searches stop later than they may


class Begun(NamedTuple):
    """Rows that have begun: their lists in the order of their scans [n, w], their first looks [n].

    `compared` counts the vectors that they were compared with before.
    """

    lists: NDArray[np.int64]
    stops: NDArray[np.int64]
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
        self._courses: dict[RowKey, Course] = {}

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
        stops = np.empty(len(starts), np.int64)
        compared = 0
        for number, start in enumerate(starts):
            course = self._course(start, queries[number], lists[number], distances[number])
            self._courses[start.key] = course
            ordered[number] = course.lists
            stops[number] = course.scanned
            compared += 0 if course.known is None else course.known.vectors
        return Begun(ordered, stops, compared)

    def ended(self, table: SlotTable, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of the rows that came to their stop have ended, [m].

        The others go on to their next look. Mutates: the stops of the table.
        """
        courses = [self._courses.get(key) for key in _keys(table, rows)]
        asked = [(row, course) for row, course in zip(rows, courses, strict=True) if course]
        if not asked:
            return rows
        going = {int(row) for row, course in self._asked(table, asked)}
        return np.array([row for row in rows if int(row) not in going], np.int64)

    def with_known(
        self, table: SlotTable, rows: NDArray[np.int64], found: SortedHits
    ) -> SortedHits:
        """Return the hits of rows [m, h] with those that they knew besides, as many."""
        courses = [self._courses.get(key) for key in _keys(table, rows)]
        numbers, known = _known(courses)
        if known is None:
            return found
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
        for number, key in enumerate(_keys(table, rows)):
            course = self._courses.pop(key, None)
            if course is None:
                continue
            if course.past is not None:
                hits = labels[number, : course.start.k]
                known[number] = np.isin(hits[hits >= 0], course.past.hits).sum()
            hits = labels[number, :CACHED_HITS].copy()
            self._pasts.add(course.start.request_id, PastSearch(course.query, hits))
            if course.record is not None:
                self._check.add(self._sample(course, course.record))
        return known

    def forget(self, task_id: int, rows: int) -> None:
        """Give up the rows of a task that are under way."""
        for row in range(rows):
            course = self._courses.pop(RowKey(task_id, row), None)
            if course is not None and course.record is not None:
                self._check.drop()

    def calibration(self, k: int, planned: int) -> Calibration:
        """Return what tells when searches for k hits that plan so many clusters may stop."""
        key = (k, planned, len(self._index.list_sizes))
        if key not in self._calibrations:
            if len(self._calibrations) == CALIBRATIONS_KEPT:
                self._calibrations.popitem(last=False)
            vectors = max(1.0, float(self._index.list_sizes.mean()))
            lists_per_look = math.ceil(self._index.vectors_per_look / vectors)
            self._calibrations[key] = Calibration(
                self._target, looks_at(planned, lists_per_look, LOOKS_PER_DOUBLING)
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
        # Where every list is scanned in the end, nothing is gained by what is known.
        return Course(
            start,
            query,
            past,
            self._index.known(query[None], past.hits) if past and len(looks) > 1 else None,
            lists,
            np.sqrt(distances[turns].astype(np.float64)),
            self._index.list_sizes[lists],
            bonuses[turns],
            looks,
            calibration,
            rule,
            Record() if is_sample else None,
        )

    def _asked(
        self, table: SlotTable, asked: Sequence[tuple[np.int64, Course]]
    ) -> list[tuple[np.int64, Course]]:
        """Look at rows; return those that go on."""
        rows = np.array([row for row, _ in asked])
        courses = [course for _, course in asked]
        kth = _kth(table, rows, courses)
        may_stop = self._may_stop(courses, kth)
        self._note(table, rows, courses, kth, may_stop)
        going = [
            (row, course)
            for row, course, may in zip(rows, courses, may_stop.tolist(), strict=True)
            if not course.is_at_end and (course.record is not None or not may)
        ]
        for _, course in going:
            course.look += 1
        if going:
            stops = np.array([course.scanned for _, course in going])
            table.extend(np.array([row for row, _ in going]), stops)
        return going

    def _may_stop(self, courses: Sequence[Course], kth: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether the rule of each course lets it stop at this look, [n]."""
        may_stop = np.zeros(len(courses), bool)
        rules = {id(course.rule): course.rule for course in courses}
        for rule in rules.values():
            if rule is None:
                continue
            mine = [n for n, course in enumerate(courses) if course.rule is rule]
            missing = missing_ahead(rule.model, [courses[n] for n in mine], kth[mine])
            may_stop[mine] = missing <= rule.limit
        return may_stop

    def _note(
        self,
        table: SlotTable,
        rows: NDArray[np.int64],
        courses: Sequence[Course],
        kth: NDArray[np.float64],
        may_stop: NDArray[np.bool_],
    ) -> None:
        """Record what samples have found at this look."""
        for number, course in enumerate(courses):
            record = course.record
            if record is None:
                continue
            row = rows[number : number + 1]
            heaps = (table.distances[row], table.labels[row])
            found, _ = self.with_known(
                table, row, self._index.hits(table.queries[row], *heaps, table.k)
            )
            record.kth.append(float(kth[number]))
            record.found.append(found[0, : course.start.k].copy())
            if record.ended is None and (may_stop[number] or course.is_at_end):
                record.ended = course.look

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
        wanted = labels[labels >= 0]
        if course.known is not None:  # no list is scanned for these
            wanted = wanted[~np.isin(wanted, course.known.chunk_ids)]
        scan = course.scan(record, recalls, self._index.lists_of(wanted))
        stopped = not course.calibration.why_full
        course.calibration.add(scan, record.ended, by_rule=course.rule is not None)
        if stopped == bool(course.calibration.why_full):
            self._check.start_over()


def _keys(table: SlotTable, rows: NDArray[np.int64]) -> list[RowKey]:
    task_ids, task_rows = table.task_ids[rows].tolist(), table.task_rows[rows].tolist()
    return [RowKey(*pair) for pair in zip(task_ids, task_rows, strict=True)]


def _known(courses: Sequence[Course | None]) -> tuple[list[int], KnownHits | None]:
    """Return which of the courses know hits, [m], and these; None = none does."""
    knowing = [
        (number, course.known)
        for number, course in enumerate(courses)
        if course is not None and course.known is not None
    ]
    if not knowing:
        return [], None
    return [number for number, _ in knowing], KnownHits.stacked([known for _, known in knowing])


def _kth(
    table: SlotTable, rows: NDArray[np.int64], courses: Sequence[Course]
) -> NDArray[np.float64]:
    """Return the distance to the k-th nearest vector that each row knows, at most `FAR`, [n]."""
    k = np.array([course.start.k for course in courses])
    distances = np.sort(table.distances[rows], axis=1)
    numbers, known = _known(courses)
    if known is not None:
        heaps = (table.distances[rows[numbers]], table.labels[rows[numbers]])
        merged, _ = with_known(*heaps, known.distances, known.labels)
        distances[numbers] = merged[:, : distances.shape[1]]
    kth: NDArray[np.float32] = distances[np.arange(len(k)), k - 1]
    return np.minimum(np.sqrt(np.maximum(kth.astype(np.float64), 0.0)), FAR)
