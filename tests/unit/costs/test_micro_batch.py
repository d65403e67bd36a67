"""A micro-batch is as large as its overhead asks for."""

import pytest

from heddle.costs.micro_batch import OVERHEAD_SHARE, micro_batch_rows


@pytest.mark.parametrize(("call_s", "row_s", "rows"), [(1e-3, 1e-3, 10), (5e-3, 2e-3, 25)])
def test_the_overhead_is_a_tenth_at_most(call_s, row_s, rows):
    assert micro_batch_rows(call_s, row_s) == rows
    assert call_s <= OVERHEAD_SHARE * rows * row_s


@pytest.mark.parametrize(("call_s", "row_s"), [(0.0, 1e-3), (1e-3, 0.0), (0.0, 0.0)])
def test_it_holds_a_row(call_s, row_s):
    assert micro_batch_rows(call_s, row_s) == 1
