"""A climb ends just below the largest burst that keeps the SLO, wherever it begins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.costs.depth_climb import DepthClimb

QUERIES_MAX = 512


@given(deepest=st.integers(0, 2 * QUERIES_MAX), size=st.integers(0, 600), step=st.integers(1, 64))
def test_it_ends_a_query_or_5_percent_below_the_largest_burst_in_time(
    deepest: int, size: int, step: int
) -> None:
    climb, bursts = DepthClimb(QUERIES_MAX, size, step), 0
    while not climb.is_done:
        assert 1 <= climb.size <= QUERIES_MAX
        # Far beyond the SLO, or within it: nothing gets a second turn.
        climb.take(0.5 if climb.size <= deepest else 2.0)
        bursts += 1
    deepest = min(deepest, QUERIES_MAX)
    assert climb.depth <= deepest < climb.depth + max(1, climb.depth // 20)
    assert climb.size == max(1, climb.depth)
    assert bursts < 25


def test_from_a_good_guess_few_bursts_are_needed() -> None:
    climb, sizes = DepthClimb(QUERIES_MAX, 96, 12), []
    while not climb.is_done:
        sizes.append(climb.size)
        climb.take(climb.size / 100 if climb.size <= 100 else 2.0)
    assert sizes == [96, 108, 102, 99]
    assert climb.depth == 99


@pytest.mark.parametrize(("shares", "is_within"), [((1.2, 0.9), True), ((1.2, 1.2), False)])
def test_a_size_just_beyond_the_slo_gets_another_turn(
    shares: tuple[float, float], is_within: bool
) -> None:
    climb = DepthClimb(QUERIES_MAX, 10)
    climb.take(shares[0])
    assert (climb.size, climb.depth) == (10, 0)
    climb.take(shares[1])
    assert (climb.depth == 10) is is_within
