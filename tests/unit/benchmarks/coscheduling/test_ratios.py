import pytest

from benchmarks.coscheduling.ratios import median, p99, ratio


def test_a_contender_that_takes_twice_as_long_is_two() -> None:
    own = [[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]
    other = [[2.0, 4.0, 6.0], [4.0, 6.0, 8.0]]
    found = ratio(own, other, median, seed=0)
    assert (found.value, found.low95, found.high95) == pytest.approx((2.0, 2.0, 2.0))


def test_blocks_that_disagree_widen_the_interval() -> None:
    own = [[1.0]] * 6
    other = [[1.0], [1.0], [1.0], [3.0], [3.0], [3.0]]
    found = ratio(own, other, median, seed=0)
    assert found.low95 == 1.0
    assert found.value == 2.0
    assert found.high95 == 3.0


def test_the_tail_has_a_figure_of_its_own() -> None:
    assert p99([1.0] * 99 + [101.0]) > 1.0
