"""The split of memory: most requests, with the smallest KV pages that serve them. (eq. 2)"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.costs.memory_split import (
    Bound,
    MeasuredCurves,
    RatePoint,
    StageMix,
    answered_per_s,
    predict_split,
    split_memory,
)


def rising_to(most):
    return (RatePoint(most / 2, most / 2), RatePoint(2 * most, most))


CURVES = MeasuredCurves(
    {100: rising_to(2.0), 200: rising_to(5.0), 400: rising_to(8.0)}, rising_to(6.0)
)
ONESHOT = StageMix(1.0, 1.0)


def test_generation_bounds_what_retrieval_could_serve():
    split = split_memory(CURVES, StageMix(2.0, 1.0), math.inf, 1000)
    assert split == (400, 600, 4.0, Bound.GENERATION, (2.0, 1.0))


def test_more_pages_than_retrieval_keeps_up_with_are_left_to_the_index():
    split = split_memory(CURVES, StageMix(1.0, 3.0), math.inf, 1000)
    assert split == (100, 900, 2.0, Bound.RETRIEVAL, (1.0, 3.0))


def test_a_low_rate_needs_few_pages():
    split = split_memory(CURVES, ONESHOT, 1.0, 1000)
    assert split == (100, 900, 1.0, Bound.LOAD, (1.0, 1.0))


def test_what_another_size_would_serve_is_predicted_the_same_way():
    split = predict_split(CURVES, StageMix(2.0, 1.0), math.inf, 1000, 200)
    assert split == (200, 800, 2.5, Bound.GENERATION, (2.0, 1.0))


def test_only_sizes_that_fit_are_taken():
    assert split_memory(CURVES, ONESHOT, math.inf, 250).kv_bytes == 200
    with pytest.raises(ConfigError, match="begins at 100 bytes"):
        split_memory(CURVES, ONESHOT, math.inf, 99)


def test_a_workflow_that_never_searches_is_bound_by_generation():
    split = split_memory(CURVES, StageMix(1.0, 0.0), math.inf, 1000)
    assert (split.kv_bytes, split.bound) == (400, Bound.GENERATION)


@pytest.mark.parametrize(
    ("rate", "answered"), [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (2.5, 1.5), (4.0, 2.0), (99.0, 2.0)]
)
def test_a_curve_is_read_between_its_points(rate, answered):
    assert answered_per_s(rising_to(2.0), rate) == pytest.approx(answered)


@given(
    st.dictionaries(st.integers(1, 50), st.floats(0.1, 50), min_size=1, max_size=5),
    st.floats(0.1, 50),
    st.tuples(st.floats(0, 4), st.floats(0, 4)),
    st.floats(0.01, 100),
)
def test_no_other_measured_size_serves_notably_more(sizes, retrieved, mix, rate):
    curves = MeasuredCurves({s: rising_to(most) for s, most in sizes.items()}, rising_to(retrieved))
    split = split_memory(curves, StageMix(*mix), rate, 50)
    alone = [
        split_memory(MeasuredCurves({s: points}, curves.retrieval), StageMix(*mix), rate, 50)
        for s, points in curves.generation.items()
    ]
    assert split.requests_per_s >= 0.98 * max(one.requests_per_s for one in alone)
    assert split.kv_bytes + split.rest_bytes == 50
    assert split.requests_per_s <= rate


@pytest.mark.parametrize("points", [(), (RatePoint(2, 1), RatePoint(1, 1)), (RatePoint(0, 0),)])
def test_a_broken_curve_is_refused(points):
    with pytest.raises(ConfigError, match="measure it again"):
        MeasuredCurves({1: rising_to(1.0)}, points)
    with pytest.raises(ConfigError, match="measure it again"):
        MeasuredCurves({1: points}, rising_to(1.0))
    with pytest.raises(ConfigError, match="no sizes"):
        MeasuredCurves({}, rising_to(1.0))
