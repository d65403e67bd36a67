"""Which windows are read next: the shared scheduler's rows, with the passages they come from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.core.payloads import ReadingText
from heddle.core.tasks import Priority
from heddle.encoder.batch_scheduler import BatchLimits, BatchScheduler
from heddle.engines.reading.windows import Window


class ReadingRow(NamedTuple):
    """A window of one of a task's passages."""

    task_id: int
    passage: int
    window: Window


@dataclass(slots=True)
class CutRows:
    """A task's windows that wait, by the number of their row, and how many passages are cut."""

    passages_cut: int = 0
    rows: dict[int, ReadingRow] = field(default_factory=dict)


class ReadingScheduler:
    """The queue of a reading lane, and its next batch. See `BatchScheduler` for the order.

    Mutates: next_batch takes the rows it returns.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._queue: BatchScheduler[ReadingText] = BatchScheduler(limits)
        self._cut: dict[int, CutRows] = {}

    @property
    def rows_waiting(self) -> int:
        """Windows in the queue, and passages that are not cut yet."""
        return self._queue.rows_waiting

    def add(
        self,
        task_id: int,
        passages: tuple[ReadingText, ...],
        priority: Priority,
        deadline_s: float = math.inf,
        rank: float = 0.0,
    ) -> None:
        """Queue a task behind those of its class whose rank is no higher."""
        self._queue.add(task_id, passages, priority, deadline_s, rank)
        self._cut[task_id] = CutRows()

    def remove(self, task_id: int) -> None:
        """Forget what still waits of a task."""
        self._queue.remove(task_id)
        self._cut.pop(task_id, None)

    def reprioritise(self, task_id: int, priority: Priority) -> None:
        """Move a task to another class; its arrival still counts."""
        self._queue.reprioritise(task_id, priority)

    def uncut(self) -> tuple[tuple[int, tuple[ReadingText, ...]], ...]:
        """Return the passages whose windows the next batch needs: (task id, passages) each."""
        return self._queue.untokenized()

    def cut(self, task_id: int, passages: Sequence[Sequence[Window]]) -> None:
        """Take in the windows of a task's next passages, in their order; at least one of each."""
        done = self._cut[task_id]
        for windows in passages:
            passage = done.passages_cut
            self._queue.tokenized(task_id, [windows[0].ids])
            done.rows[passage] = ReadingRow(task_id, passage, windows[0])
            further = self._queue.add_windows(task_id, [window.ids for window in windows[1:]])
            for index, window in zip(further, windows[1:], strict=True):
                done.rows[index] = ReadingRow(task_id, passage, window)
            done.passages_cut += 1

    def next_batch(
        self,
        *,
        tokens_max: float,
        call_tokens: float,
        now_s: float = 0.0,
        token_s: float = 0.0,
    ) -> tuple[ReadingRow, ...]:
        """Take the next batch; empty if nothing is cut. Arguments as `BatchScheduler`'s."""
        batch = self._queue.next_batch(
            tokens_max=tokens_max, call_tokens=call_tokens, now_s=now_s, token_s=token_s
        )
        return tuple(self._cut[row.task_id].rows.pop(row.index) for row in batch)
