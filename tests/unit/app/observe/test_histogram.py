"""Counts between bounds."""

from hypothesis import given
from hypothesis import strategies as st

from heddle.app.observe.histogram import Histogram, doubling

BOUNDS = (1.0, 2.0, 5.0)
EDGES_TOO = st.one_of(st.sampled_from(BOUNDS), st.floats(0, 10))


@given(st.lists(EDGES_TOO))
def test_every_observation_counts_at_the_first_bound_that_it_does_not_exceed(values: list[float]):
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.observe(value)
    upto = [sum(histogram.counts[: i + 1]) for i in range(4)]
    assert upto == [*(sum(v <= bound for v in values) for bound in BOUNDS), len(values)]
    assert histogram.total == sum(values)


def test_bounds_double():
    assert doubling(0.01, 4) == (0.01, 0.02, 0.04, 0.08)
