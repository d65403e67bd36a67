"""A payload in parts, and the parts' results as one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.frames import Cancelled, Done, Event, Failed
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.core.tasks import Identity, Task
from heddle.engines.embedding.split_task import SplitTask, parts_of

WHOLE = EmbedPayload(tuple("abcde"), in_windows=True)


@given(st.lists(st.floats(0.5, 30), min_size=1, max_size=30))
def test_parts_hold_all_texts_in_order_within_the_bound(tokens: list[float]) -> None:
    payload = EmbedPayload(tuple(map(str, range(len(tokens)))), in_windows=False)
    parts = parts_of(payload, tokens, 20)
    assert sum((part.texts for part in parts), ()) == payload.texts
    assert all(part.in_windows is False for part in parts)
    for part in parts:
        size = sum(tokens[int(text)] for text in part.texts)
        assert size <= 20 or len(part.texts) == 1


def begun() -> SplitTask:
    task = Task(7, PrimitiveKind.EMBEDDING, Identity(1, "n"), WHOLE)
    split = SplitTask(task, 1.0, [WHOLE.part(0, 2), WHOLE.part(2, 5)])
    assert split.next_part(-1) == WHOLE.part(0, 2)
    assert split.next_part(-2) == WHOLE.part(2, 5)
    assert split.next_part(-3) is None
    return split


def vectors(first: int, last: int) -> Vectors:
    return Vectors(np.arange(first, last, dtype=np.float32)[:, None], 10, 1, 2)


def test_parts_that_end_in_any_order_make_one_result() -> None:
    split = begun()
    assert split.take(Done(-2, vectors(2, 5))) is None
    assert split.begun == (-1,)
    end = split.take(Done(-1, vectors(0, 2)))
    assert isinstance(end, Done)
    assert end.task_id == 7
    assert isinstance(end.result, Vectors)
    np.testing.assert_array_equal(end.result.values[:, 0], np.arange(5))
    assert (end.result.tokens, end.result.truncated, end.result.windowed) == (20, 2, 4)


def test_the_first_part_that_fails_ends_the_task() -> None:
    ends: list[Event] = [Failed(-1, "why", is_input=True), Cancelled(-1)]
    for end in ends:
        assert begun().take(end) == end._replace(task_id=7)
