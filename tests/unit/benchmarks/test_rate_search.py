import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.rate_search import SPAN_MAX, RateSearch


def searched(limit, start=1.0, precision=1.05):
    """Return the search for a limit, and the rates that it tried."""
    search, tried = RateSearch(start, precision), []
    while not search.is_done:
        tried.append(search.rate)
        assert len(tried) < 50
        search.take(meets=search.rate <= limit)
    return search, tried


@given(st.floats(1.01 / SPAN_MAX, 0.99 * SPAN_MAX), st.floats(1e-3, 1e3))
def test_it_ends_close_below_the_limit(factor, start):
    search, tried = searched(factor * start, start)
    assert search.best <= factor * start < 1.05 * search.best
    assert search.best in tried


def test_from_a_rate_that_is_near_two_tries_are_enough():
    assert searched(1.05, precision=1.1)[1] == pytest.approx([1.0, 1.1])
    assert searched(0.95, precision=1.1)[1] == pytest.approx([1.0, 1 / 1.1])


@pytest.mark.parametrize("way", [1, -1])
def test_steps_become_longer_until_it_knows_both_ends(way):
    tried = searched(1.5 ** (4.5 * way), precision=1.5)[1]
    assert tried == pytest.approx([1.5 ** (power * way) for power in (0, 1, 2, 4, 8, 6, 5)])


def test_what_never_meets_and_what_always_does_end():
    assert searched(0.0)[0].best == 0.0
    assert searched(1e9)[0].best == SPAN_MAX
