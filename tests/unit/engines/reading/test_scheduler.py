"""Rows keep their passage, through windows and batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.payloads import ReadingText
from heddle.core.tasks import Priority
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.engines.reading.scheduler import ReadingRow, ReadingScheduler
from heddle.engines.reading.windows import Window

INF = float("inf")


def window(length: int) -> Window:
    return Window(tuple(range(length)), 1, 2, ())


def taken(scheduler: ReadingScheduler, tokens_max: float = INF) -> tuple[ReadingRow, ...]:
    return scheduler.next_batch(tokens_max=tokens_max, call_tokens=1e9)


lengths = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4), min_size=1, max_size=6)


@given(st.lists(lengths, min_size=1, max_size=5), st.integers(1, 200), st.booleans())
def test_each_window_comes_once_with_its_passage(
    tasks: list[list[list[int]]], tokens_max: int, is_padded: bool
) -> None:
    scheduler = ReadingScheduler(BatchLimits(tokens_max, is_padded=is_padded))
    for task_id, passages in enumerate(tasks):
        scheduler.add(task_id, (ReadingText("", ""),) * len(passages), Priority.NORMAL)
        scheduler.cut(task_id, [[window(n) for n in windows] for windows in passages])
    came: list[tuple[int, int, int]] = []
    while batch := taken(scheduler):
        came += [(row.task_id, row.passage, len(row.window.ids)) for row in batch]
        sizes = [len(row.window.ids) for row in batch]
        padded = len(sizes) * max(sizes) if is_padded else sum(sizes)
        assert len(batch) == 1 or padded <= tokens_max
    wanted = [
        (task_id, passage, n)
        for task_id, passages in enumerate(tasks)
        for passage, windows in enumerate(passages)
        for n in windows
    ]
    assert sorted(came) == sorted(wanted)
    assert scheduler.rows_waiting == 0


def test_without_padding_the_oldest_rows_make_a_batch_of_any_lengths() -> None:
    scheduler = ReadingScheduler(BatchLimits(100, is_padded=False))
    for task_id, sizes in enumerate([(90, 5), (90, 5)]):
        scheduler.add(task_id, (ReadingText("", ""),) * 2, Priority.NORMAL)
        scheduler.cut(task_id, [[window(n)] for n in sizes])
    batches = [[(r.task_id, r.passage) for r in taken(scheduler)] for _ in range(2)]
    assert batches == [[(0, 0), (0, 1)], [(1, 0), (1, 1)]]


@pytest.mark.parametrize("is_padded", [True, False])
def test_urgent_rows_go_first_and_alone(is_padded: bool) -> None:
    scheduler = ReadingScheduler(BatchLimits(1000, is_padded=is_padded))
    for task_id, priority in enumerate([Priority.BULK, Priority.NORMAL]):
        scheduler.add(task_id, (ReadingText("", ""),), priority)
        scheduler.cut(task_id, [[window(10)]])
    assert [row.task_id for row in taken(scheduler)] == [1]
    scheduler.reprioritise(0, Priority.INTERACTIVE)
    assert [row.task_id for row in taken(scheduler)] == [0]


def test_a_removed_task_leaves_nothing() -> None:
    scheduler = ReadingScheduler(BatchLimits())
    scheduler.add(1, (ReadingText("", ""),), Priority.NORMAL)
    assert scheduler.uncut() == ((1, (ReadingText("", ""),)),)
    scheduler.remove(1)
    assert scheduler.uncut() == taken(scheduler) == ()
