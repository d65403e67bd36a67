"""Which rows an encoder takes next: by priority, then rank, beside rows of their length.

A row is a text, or a window of one; a batch is what one step of embedding or reading takes.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, Generic, Self, TypeVar

from heddle.core.errors import ConfigError
from heddle.core.tasks import Priority

_RANK = attrgetter("rank")

TextT = TypeVar("TextT")  # a text as its engine was given it
# What rows taken as they come cost in padding, and steps beyond what the fit says.
CAREFUL: Final = 1.3
MEMORY_SHARE: Final = 0.7  # of a device's free memory for a step; allocators waste some
STEPS_AHEAD: Final = 2  # of the oldest rows may share a step by length, however tight it is


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch may become; `window_rows` is how far it looks ahead for equal lengths.

    With `is_padded` the device computes each row at the length of the batch's longest. Without it
    rows lie one behind the other: a batch takes them as they came, of any length.

    Raises:
        ConfigError: a limit is not positive.
    """

    tokens_max: int = 512
    rows_max: int = 64
    window_rows: int = 256
    is_padded: bool = True

    def __post_init__(self) -> None:
        for name in ("tokens_max", "rows_max", "window_rows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"batch {name}: need at least 1, got {getattr(self, name)}")

    def within_memory(self, token_bytes: float, free_bytes: int) -> Self:
        """Return limits whose steps leave some of a device's free memory, at least a token's.

        Args:
            token_bytes: what a padded token takes while a step runs; 0 = nothing that counts.
            free_bytes: free on the device between steps.
        """
        if not token_bytes:
            return self
        fitting = int(MEMORY_SHARE * free_bytes / token_bytes)
        return replace(self, tokens_max=max(1, min(self.tokens_max, fitting)))


@dataclass(frozen=True, slots=True)
class Row:
    """One tokenised text of a task, or a window of it.

    `deadline_s` is on the lane's clock; inf = none.
    """

    task_id: int
    index: int
    token_ids: Sequence[int]
    deadline_s: float = math.inf


@dataclass(slots=True)
class WaitingTask(Generic[TextT]):
    """The rows of a task that no batch has taken yet.

    `texts[next_text:]` are still text; `rows` are tokenised, by index. Rows of index len(texts)
    and above are the further windows of long texts, `windows` up to now.
    """

    task_id: int
    priority: Priority
    texts: tuple[TextT, ...]
    deadline_s: float = math.inf
    rank: float = 0.0
    next_text: int = 0
    windows: int = 0
    rows: dict[int, Row] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """Rows that wait, tokenised or not."""
        return len(self.rows) + len(self.texts) - self.next_text


class BatchScheduler(Generic[TextT]):
    """The queue of a lane, and its next batch.

    The first row of the most urgent class is in every batch: that of the lowest rank, of equals
    the oldest. Ranks grow with arrival (`CallOrder`), so nothing starves within a class. Rows of
    another class never join: on a CPU each costs as much time as it would alone, and the urgent
    ones would wait for it.

    Mutates: next_batch takes the rows it returns; a task with none left is forgotten.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._tasks: dict[int, WaitingTask[TextT]] = {}

    @property
    def rows_waiting(self) -> int:
        """Rows in the queue, tokenised or not."""
        return sum(task.row_count for task in self._tasks.values())

    @property
    def longest(self) -> int:
        """Tokens of the longest row that the next batch may take; 0 = none is tokenised."""
        return max((len(row.token_ids) for row in self._window()), default=0)

    def add(
        self,
        task_id: int,
        texts: tuple[TextT, ...],
        priority: Priority,
        deadline_s: float = math.inf,
        rank: float = 0.0,
    ) -> None:
        """Queue a task behind those of its class whose rank is no higher."""
        self._tasks[task_id] = WaitingTask(task_id, priority, texts, deadline_s, rank)

    def remove(self, task_id: int) -> None:
        """Forget what still waits of a task."""
        self._tasks.pop(task_id, None)

    def reprioritise(self, task_id: int, priority: Priority) -> None:
        """Move a task to another class; its arrival still counts."""
        if task_id in self._tasks:
            self._tasks[task_id].priority = priority

    def untokenized(
        self, rows: int | None = None, texts_max: int | None = None
    ) -> tuple[tuple[int, tuple[TextT, ...]], ...]:
        """Return the texts whose length the next batch needs to know: (task id, texts) each.

        Args:
            rows: how many rows it may choose from; None = as many as it looks ahead.
            texts_max: the most to return; None = all of them.
        """
        wanted: list[tuple[int, tuple[TextT, ...]]] = []
        left = self._limits.window_rows if rows is None else rows
        texts_left = left if texts_max is None else texts_max
        for task in self._urgent():
            left -= len(task.rows)
            if min(left, texts_left) <= 0:
                break
            texts = task.texts[task.next_text : task.next_text + min(left, texts_left)]
            if texts:
                wanted.append((task.task_id, texts))
                left -= len(texts)
                texts_left -= len(texts)
        return tuple(wanted)

    def tokenized(self, task_id: int, token_ids: Sequence[Sequence[int]]) -> None:
        """Take in the ids of a task's next texts, in their order."""
        task = self._tasks[task_id]
        for ids in token_ids:
            row = Row(task_id, task.next_text, ids, task.deadline_s)
            task.rows[task.next_text] = row
            task.next_text += 1

    def add_windows(self, task_id: int, windows: Sequence[Sequence[int]]) -> range:
        """Queue further rows of a task's tokenised texts; return their indices, all new ones."""
        task = self._tasks[task_id]
        first = len(task.texts) + task.windows
        for index, ids in enumerate(windows, first):
            task.rows[index] = Row(task_id, index, ids, task.deadline_s)
        task.windows += len(windows)
        return range(first, first + len(windows))

    def next_batch(
        self,
        *,
        tokens_max: float,
        call_tokens: float,
        now_s: float = 0.0,
        token_s: float = 0.0,
    ) -> tuple[Row, ...]:
        """Take the next batch; empty if nothing is tokenised.

        Without padding the oldest rows make the batch. With padding, rows of about the oldest
        one's length join it, of any age, where no row that is overtaken gets late by that.
        Otherwise the only rows that join are no younger than the first one that would get late,
        or are among those that two steps take in any case. Rows taken strictly as they came would
        make steps of few rows, and then all of them late.

        Args:
            tokens_max: padded tokens it may hold, beside the limits' own bound; one row always
                fits.
            call_tokens: what the fixed part of a step costs, in tokens: rows join as long as
                the padding they bring costs less than the step they save.
            now_s: the lane's time, as deadlines are given [s].
            token_s: what a padded token takes [s]; 0 = deadlines are not looked at.
        """
        tokens_max = min(tokens_max, self._limits.tokens_max)
        window = self._window()
        if not self._limits.is_padded:
            rows = min(self._limits.rows_max, max(1, _rows_within(window, tokens_max)))
            return self._taken(window[:rows])
        if token_s > 0:
            tight = _first_tight(window, tokens_max, call_tokens, now_s, token_s)
            window = window[: max(tight + 1, _rows_within(window, STEPS_AHEAD * tokens_max))]
        return self._taken(self._grow(window, tokens_max, call_tokens))

    def _taken(self, batch: Sequence[Row]) -> tuple[Row, ...]:
        for row in batch:
            task = self._tasks[row.task_id]
            del task.rows[row.index]
            if not task.row_count:
                del self._tasks[row.task_id]
        return tuple(batch)

    def _urgent(self) -> Iterator[WaitingTask[TextT]]:
        """Yield the tasks of the most urgent class that waits, the lowest rank first."""
        if self._tasks:
            first = min(task.priority.value for task in self._tasks.values())
            urgent = (task for task in self._tasks.values() if task.priority.value == first)
            yield from sorted(urgent, key=_RANK)

    def _window(self) -> list[Row]:
        """Return the tokenised rows that come next, oldest first."""
        rows: list[Row] = []
        for task in self._urgent():
            rows += task.rows.values()
            if len(rows) >= self._limits.window_rows:
                break
        return rows[: self._limits.window_rows]

    def _grow(
        self, window: Sequence[Row], tokens_max: float, call_tokens: float
    ) -> tuple[Row, ...]:
        """Start at the oldest row and take neighbours in length, the least padding first."""
        if not window:
            return ()
        order = sorted(range(len(window)), key=lambda i: (len(window[i].token_ids), i))
        lengths = [len(window[i].token_ids) for i in order]
        low = order.index(0)
        high = low + 1
        padding = 0.0
        while high - low < self._limits.rows_max:
            rows, longest = high - low, lengths[high - 1]
            shorter = longer = math.inf
            if low > 0 and (rows + 1) * longest <= tokens_max:
                shorter = longest - lengths[low - 1]
            if high < len(order) and (rows + 1) * lengths[high] <= tokens_max:
                longer = (lengths[high] - longest) * rows
            padding += min(shorter, longer)
            if math.isinf(padding) or padding > call_tokens:
                break
            low, high = (low, high + 1) if longer <= shorter else (low - 1, high)
        return tuple(window[i] for i in order[low:high])


def _rows_within(window: Sequence[Row], tokens_max: float) -> int:
    """Return how many of the oldest rows have at most `tokens_max` tokens together."""
    sums = itertools.accumulate(len(row.token_ids) for row in window)
    return sum(1 for _ in itertools.takewhile(lambda tokens: tokens <= tokens_max, sums))


def _first_tight(
    window: Sequence[Row], tokens_max: float, call_tokens: float, now_s: float, token_s: float
) -> int:
    """Return the first row that would be late if all went in their order, a step behind schedule.

    Where none would, that is the number of rows.
    """
    tokens = tokens_max
    for index, row in enumerate(window):
        tokens += len(row.token_ids)
        steps_tokens = tokens + call_tokens * (tokens / max(1.0, tokens_max) + 1)
        if now_s + CAREFUL * steps_tokens * token_s > row.deadline_s:
            return index
    return len(window)
