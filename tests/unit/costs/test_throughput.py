"""A lane's throughput grows with the tokens of a step, towards its peak."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.cost_snapshot import CostSnapshot
from heddle.costs.throughput import BUSY_SHARE, ThroughputCurve

costs = st.floats(1e-6, 1.0)
counts = st.integers(1, 100_000)


@given(costs, costs, counts, counts)
def test_longer_steps_compute_more_tokens_a_second_and_never_the_peak(call_s, token_s, one, more):
    curve = ThroughputCurve(call_s, token_s)
    assert curve.per_s(one) <= curve.per_s(one + more) * (1 + 1e-9) <= curve.peak_per_s * (1 + 2e-9)


@given(costs, costs)
def test_there_is_room_up_to_a_share_of_the_peak(call_s, token_s):
    curve = ThroughputCurve(call_s, token_s)
    full = call_s / token_s * BUSY_SHARE / (1 - BUSY_SHARE)  # where T = share of the peak
    assert curve.room_per_s(0) == pytest.approx(BUSY_SHARE / token_s)
    assert curve.room_per_s(full * 0.99) > 0 > curve.room_per_s(full * 1.01 + 1e-3)


def test_it_is_of_what_a_lane_has_measured():
    curve = ThroughputCurve.of(
        CostSnapshot("llm", 1, {"call": 0.01, "prefill_tokens": 9e-4, "context_tokens": 1e-4})
    )
    assert curve == ThroughputCurve(0.01, 1e-3)
    assert (curve.seconds(0), curve.per_s(0)) == (0.0, 0.0)
    assert curve.seconds(10) == pytest.approx(0.02)
    assert curve.per_s(10) == pytest.approx(500.0)


@pytest.mark.parametrize("known", [None, CostSnapshot("vector", 1, {"call": 1.0, "lists": 1.0})])
def test_a_lane_without_tokens_has_none(known):
    assert ThroughputCurve.of(known) is None
