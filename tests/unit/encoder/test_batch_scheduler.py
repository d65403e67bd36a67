"""The next batch: urgent and old rows first, little padding, nothing lost or starved."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.core.tasks import Priority
from heddle.encoder.batch_scheduler import BatchLimits, BatchScheduler, Row

INF = float("inf")


def queue(
    lengths: dict[int, list[int]],
    limits: BatchLimits,
    priorities: dict[int, Priority] | None = None,
) -> BatchScheduler:
    scheduler = BatchScheduler(limits)
    for task_id, row_lengths in lengths.items():
        priority = (priorities or {}).get(task_id, Priority.NORMAL)
        scheduler.add(task_id, tuple("x" * n for n in row_lengths), priority)
    return scheduler


def tokenize(scheduler: BatchScheduler) -> int:
    """Stand in for the worker: a text of n letters has n tokens."""
    wanted = scheduler.untokenized()
    for task_id, texts in wanted:
        scheduler.tokenized(task_id, [range(len(text)) for text in texts])
    return sum(len(texts) for _, texts in wanted)


def keys(batch: tuple[Row, ...]) -> list[tuple[int, int]]:
    return [(row.task_id, row.index) for row in batch]


tasks = st.lists(
    st.tuples(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.sampled_from(Priority)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150, derandomize=True)
@given(
    tasks=tasks,
    tokens=st.integers(1, 120),
    rows=st.integers(1, 9),
    window=st.integers(1, 30),
    call_tokens=st.sampled_from([0.0, 5.0, 40.0, INF]),
)
def test_every_row_comes_once_within_the_limits(tasks, tokens, rows, window, call_tokens) -> None:
    lengths = dict(enumerate(t[0] for t in tasks))
    priorities = dict(enumerate(t[1] for t in tasks))
    limits = BatchLimits(tokens, rows, window)
    scheduler = queue(lengths, limits, priorities)
    left = {(t, i): n for t, ns in lengths.items() for i, n in enumerate(ns)}
    while left:
        assert scheduler.rows_waiting == len(left)
        assert tokenize(scheduler) <= window
        batch = scheduler.next_batch(tokens_max=INF, call_tokens=call_tokens)
        taken = keys(batch)
        sizes = [left[key] for key in taken]
        assert sizes == sorted(sizes)
        assert [len(row.token_ids) for row in batch] == sizes
        assert len(batch) == 1 or len(batch) * sizes[-1] <= tokens
        assert len(batch) <= rows
        assert len(batch) * sizes[-1] - sum(sizes) <= call_tokens
        # The oldest row of the most urgent class is there, and no other class.
        urgent = min(priorities[t].value for t, _ in left)
        assert {priorities[t].value for t, _ in taken} == {urgent}
        assert next(k for k in left if priorities[k[0]].value == urgent) in taken
        for key in taken:
            del left[key]
    assert scheduler.next_batch(tokens_max=INF, call_tokens=INF) == ()
    assert scheduler.untokenized() == ()


def test_rows_of_one_length_are_batched_over_tasks() -> None:
    scheduler = queue({1: [9, 30], 2: [10, 31], 3: [9]}, BatchLimits(512, 8, 64))
    tokenize(scheduler)
    assert keys(scheduler.next_batch(tokens_max=INF, call_tokens=4)) == [(1, 0), (3, 0), (2, 0)]
    assert keys(scheduler.next_batch(tokens_max=INF, call_tokens=4)) == [(1, 1), (2, 1)]


def test_padding_that_costs_more_than_a_call_is_avoided() -> None:
    lengths = {1: [10], 2: [16]}
    apart = queue(lengths, BatchLimits())
    tokenize(apart)
    assert keys(apart.next_batch(tokens_max=INF, call_tokens=5)) == [(1, 0)]
    together = queue(lengths, BatchLimits())
    tokenize(together)
    assert keys(together.next_batch(tokens_max=INF, call_tokens=6)) == [(1, 0), (2, 0)]


def test_a_time_budget_bounds_tokens_but_never_below_one_row() -> None:
    scheduler = queue({1: [20, 20, 20]}, BatchLimits())
    tokenize(scheduler)
    assert len(scheduler.next_batch(tokens_max=45, call_tokens=INF)) == 2
    assert len(scheduler.next_batch(tokens_max=0, call_tokens=INF)) == 1


def test_urgent_rows_overtake_and_are_tokenised_first() -> None:
    scheduler = queue({1: [5] * 50}, BatchLimits(512, 4, 16), {1: Priority.BULK})
    assert tokenize(scheduler) == 16
    scheduler.add(2, ("xxxxx",), Priority.INTERACTIVE)
    assert scheduler.untokenized() == ((2, ("xxxxx",)),)
    tokenize(scheduler)
    assert keys(scheduler.next_batch(tokens_max=INF, call_tokens=INF)) == [(2, 0)]
    assert len(scheduler.next_batch(tokens_max=INF, call_tokens=INF)) == 4


def test_as_many_texts_are_tokenised_as_are_asked_for() -> None:
    scheduler = queue({1: [3, 3], 2: [4, 4], 3: [5, 5, 5]}, BatchLimits(window_rows=6))

    def counts(**limits: int) -> list[tuple[int, int]]:
        return [(task_id, len(texts)) for task_id, texts in scheduler.untokenized(**limits)]

    assert counts() == [(1, 2), (2, 2), (3, 2)]
    assert counts(texts_max=3) == [(1, 2), (2, 1)]
    scheduler.tokenized(1, [range(3)] * 2)
    assert counts(rows=3) == [(2, 1)]
    assert counts(rows=2) == []


def test_reprioritise_and_remove() -> None:
    scheduler = queue({1: [5], 2: [5], 3: [5]}, BatchLimits(rows_max=1))
    scheduler.reprioritise(2, Priority.INTERACTIVE)
    scheduler.reprioritise(99, Priority.BULK)
    scheduler.remove(1)
    scheduler.remove(99)
    order = []
    while scheduler.rows_waiting:
        tokenize(scheduler)
        order += keys(scheduler.next_batch(tokens_max=INF, call_tokens=INF))
    assert order == [(2, 0), (3, 0)]


@pytest.mark.parametrize(
    ("token_bytes", "free_bytes", "tokens"),
    [(0.0, 0, 512), (100.0, 1 << 30, 512), (1e4, 10**6, 70), (1e4, 5, 1)],
)
def test_memory_bounds_a_step(token_bytes: float, free_bytes: int, tokens: int) -> None:
    limits = BatchLimits(512, 64, 256).within_memory(token_bytes, free_bytes)
    assert limits == BatchLimits(tokens, 64, 256)


@pytest.mark.parametrize("field", ["tokens_max", "rows_max", "window_rows"])
def test_limits_must_be_positive(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        BatchLimits(**{field: 0})


@pytest.mark.parametrize(
    ("deadline_s", "expected"), [(INF, [(1, 0), (4, 0)]), (0.2, [(1, 0)]), (9.0, [(1, 0), (4, 0)])]
)
def test_rows_of_a_length_overtake_unless_somebody_gets_late(
    deadline_s: float, expected: list[tuple[int, int]]
) -> None:
    """Rows of 10, 60, 60 and 10 tokens: the fourth would go before two that fill two steps."""
    scheduler = BatchScheduler(BatchLimits(65, 8, 16))
    for task_id, length in ((1, 10), (2, 60), (3, 60), (4, 10)):
        scheduler.add(task_id, ("x" * length,), Priority.NORMAL, deadline_s)
    tokenize(scheduler)
    batch = scheduler.next_batch(tokens_max=INF, call_tokens=5, now_s=0.0, token_s=1e-3)
    assert keys(batch) == expected


@settings(max_examples=100, derandomize=True)
@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=30), call=st.floats(0, 200))
def test_under_pressure_nobody_is_overtaken_from_beyond_two_steps(
    lengths: list[int], call: float
) -> None:
    scheduler = BatchScheduler(BatchLimits(128, 6, 16))
    for task_id, length in enumerate(lengths):
        scheduler.add(task_id, ("x" * length,), Priority.NORMAL, 0.0)
    waiting = list(range(len(lengths)))
    while scheduler.rows_waiting:
        tokenize(scheduler)
        batch = scheduler.next_batch(tokens_max=INF, call_tokens=call, now_s=1.0, token_s=1e-3)
        assert len(batch) * max(len(row.token_ids) for row in batch) <= 128
        served = [row.task_id for row in batch]
        assert waiting[0] in served
        youngest = waiting.index(max(served))
        assert not youngest or sum(lengths[i] for i in waiting[: youngest + 1]) <= 2 * 128
        waiting = [i for i in waiting if i not in served]
