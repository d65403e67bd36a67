"""A row's slots and runs say the same thing."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.kv.rows import Row

PAGE = 4


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True),
    st.integers(0, 12),
    st.data(),
)
def test_runs_cover_the_slots_in_order_of_position(pages, kept, data):
    row = Row(PAGE)
    row.extend(pages[:3])
    row.extend(pages[3:])
    kept = min(kept, len(pages))
    assert row.truncate(kept) == pages[kept:][::-1]
    assert row.capacity == kept * PAGE
    stop = data.draw(st.integers(0, row.capacity))
    start = data.draw(st.integers(0, stop))
    slots = [pages[p // PAGE] * PAGE + p % PAGE for p in range(start, stop)]
    assert row.slots(np.arange(start, stop)).tolist() == slots
    runs = row.runs(start, stop)
    assert [s for run in runs for s in range(run.start, run.start + run.length)] == slots
    for before, after in pairwise(runs):
        assert before.start + before.length != after.start, "two runs should be one"


def test_slots_of_scattered_positions():
    row = Row(PAGE)
    row.extend([7, 2, 9])
    np.testing.assert_array_equal(row.slots(np.array([3, 4, 9, 11])), [31, 8, 37, 39])


def test_a_row_does_not_reach_further_than_its_pages():
    row = Row(PAGE)
    row.extend([1])
    with pytest.raises(AssertionError, match="holds 4 positions"):
        row.runs(0, 5)
