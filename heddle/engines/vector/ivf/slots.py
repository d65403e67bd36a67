"""The rows in flight with one k: dense arrays, so packing a step is array work."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.ivf.scheduler import NO_LIST

FIRST_ROWS = 32


class SlotTable:
    """Queries in flight that ask for k hits each; rows [0, count) are in use, no holes.

    Rows move when others leave: name them by task.

    Args:
        k: hits that each row is to find.
        heap: entries of a row's running heap, at least k.
        dims: length of a query.
        allowed: what the rows may find; None = everything.
    Shapes (capacity c, width w = the most lists of a row so far): queries [c, d] float32; lists
    [c, w] int64, of which a row scans those before its stop; distances [c, heap] float32 and
    labels [c, heap] int64 are the running heaps, unordered; the others [c] int64, of which
    on_device counts the lists that a device has scanned, and courses says where the row's course
    is, which decides when it may stop, -1 = it has none.
    """

    def __init__(self, k: int, heap: int, dims: int, allowed: Allowed | None = None) -> None:
        self.k = k
        self.allowed = allowed
        self.count = 0
        self.queries = np.zeros((FIRST_ROWS, dims), np.float32)
        self.lists = np.full((FIRST_ROWS, 0), NO_LIST, np.int64)
        self.distances = np.zeros((FIRST_ROWS, heap), np.float32)
        self.labels = np.zeros((FIRST_ROWS, heap), np.int64)
        self.position = np.zeros(FIRST_ROWS, np.int64)
        self.stop = np.zeros(FIRST_ROWS, np.int64)
        self.task_ids = np.zeros(FIRST_ROWS, np.int64)
        self.task_rows = np.zeros(FIRST_ROWS, np.int64)
        self.priorities = np.zeros(FIRST_ROWS, np.int64)
        self.ranks = np.zeros(FIRST_ROWS)
        self.on_device = np.zeros(FIRST_ROWS, np.int64)
        self.courses = np.zeros(FIRST_ROWS, np.int64)

    _COLUMNS: ClassVar[tuple[str, ...]] = (
        "queries",
        "lists",
        "distances",
        "labels",
        "position",
        "stop",
        "task_ids",
        "task_rows",
        "priorities",
        "ranks",
        "on_device",
        "courses",
    )

    @property
    def lists_left(self) -> NDArray[np.int64]:
        """Clusters still to scan of each row in use, [count]."""
        return self.stop[: self.count] - self.position[: self.count]

    def add(
        self,
        task_ids: NDArray[np.int64],
        task_rows: NDArray[np.int64],
        priorities: NDArray[np.int64],
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        ranks: NDArray[np.float64],
        stop: int | NDArray[np.int64] | None = None,
        courses: int | NDArray[np.int64] = -1,
    ) -> None:
        """Put queries into new rows with empty heaps.

        Shapes: task_ids, task_rows (the row within its task), priorities, ranks and courses [m];
        queries [m, d]; lists [m, w], in the order in which they are scanned: all of them, or the
        first `stop` [m] and the others if a row is extended.
        """
        last = self.count + len(queries)
        self._reserve(last, lists.shape[1])
        added = slice(self.count, last)
        self.queries[added] = queries
        self.lists[added, : lists.shape[1]] = lists
        self.distances[added] = np.inf
        self.labels[added] = -1
        self.position[added] = 0
        self.stop[added] = 0
        self.task_ids[added] = task_ids
        self.task_rows[added] = task_rows
        self.priorities[added] = priorities
        self.ranks[added] = ranks
        self.on_device[added] = 0
        self.courses[added] = courses
        rows = np.arange(self.count, last)
        self.count = last
        self.extend(rows, lists.shape[1] if stop is None else stop)

    def upcoming(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the lists that rows scan from now on, [m, w], NO_LIST = none left."""
        return self._next(rows, self.lists_left[rows])

    def take(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Advance each row by its count; return those rows [m] and the lists [m, w] to scan.

        Mutates: position.
        """
        rows = np.flatnonzero(counts)
        lists = self._next(rows, counts[rows])
        self.position[: self.count] += counts
        return rows, lists

    def _next(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        turns = np.arange(counts.max(initial=0))
        at = (rows * self.lists.shape[1] + self.position[rows])[:, None] + turns
        lists: NDArray[np.int64] = self.lists.take(at, mode="clip")
        lists[turns >= counts[:, None]] = NO_LIST
        return lists

    def rows_of(self, task_id: int) -> NDArray[np.int64]:
        """Return the rows of a task, [m]."""
        return np.nonzero(self.task_ids[: self.count] == task_id)[0]

    def finished(self) -> NDArray[np.int64]:
        """Return the rows with nothing left to scan, [m]."""
        return np.nonzero(self.lists_left == 0)[0]

    def widen(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Let rows go on with as many lists again, as far as there are; return how many, [m]."""
        before = self.stop[rows]
        self.extend(rows, np.minimum(2 * before, self.lists.shape[1]))
        return self.stop[rows] - before

    def extend(self, rows: NDArray[np.int64], stops: int | NDArray[np.int64]) -> None:
        """Let rows [m] go on to these stops, [m] or one for all."""
        self.stop[rows] = stops

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Free rows; the last ones in use move into the holes."""
        count = self.count - len(rows)
        holes = rows[rows < count]
        if len(holes):
            is_kept = np.ones(self.count - count, bool)
            is_kept[rows[rows >= count] - count] = False
            movers = count + np.nonzero(is_kept)[0]
            for name in self._COLUMNS:
                column = getattr(self, name)
                column[holes] = column[movers]
        self.count = count

    def _reserve(self, rows: int, width: int) -> None:
        if width > self.lists.shape[1]:
            wider = np.full((len(self.lists), width), NO_LIST, np.int64)
            wider[:, : self.lists.shape[1]] = self.lists
            self.lists = wider
        capacity = len(self.position)
        if rows <= capacity:
            return
        more = max(rows, 2 * capacity) - capacity
        for name in self._COLUMNS:
            column = getattr(self, name)
            padding = np.zeros((more, *column.shape[1:]), column.dtype)
            setattr(self, name, np.concatenate([column, padding]))
