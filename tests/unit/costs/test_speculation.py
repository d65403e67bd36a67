"""A guess saves what is computed before the search ends, and costs the rest of a step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.costs.speculation import may_gain, speculation_cost_s, speculation_gain_s

times = st.floats(1e-4, 10.0)
shares = st.floats(0.0, 1.0)


@given(times, times, times)
def test_a_sure_guess_saves_what_fits_before_the_end(rest_s, prefill_s, step_s):
    assert speculation_gain_s(1.0, rest_s, prefill_s, step_s) == min(rest_s, prefill_s)
    wrong_s = speculation_gain_s(0.0, rest_s, prefill_s, step_s)
    assert wrong_s == -min(prefill_s, step_s) / 2


@given(shares, shares, times, times, times)
def test_it_grows_with_the_probability(one, other, rest_s, prefill_s, step_s):
    low, high = sorted((one, other))
    before, after = (speculation_gain_s(p, rest_s, prefill_s, step_s) for p in (low, high))
    assert before <= after + 1e-12


def test_the_bar_is_higher_where_little_is_left():
    for rest_s, bar in ((0.1, 0.5), (0.025, 0.8)):
        assert speculation_gain_s(bar, rest_s, 1.0, 0.2) == pytest.approx(0.0)


@given(shares, times, times, times, times, st.floats(0.0, 50.0))
def test_no_prompt_gains_where_none_can(probability, rest_s, prefill_s, step_s, call_s, delay):
    gain_s = speculation_gain_s(probability, rest_s, prefill_s, step_s)
    gain_s -= speculation_cost_s(probability, prefill_s, call_s, delay)
    assert gain_s <= 1e-12 or may_gain(probability, rest_s, call_s, delay)


def test_more_is_lost_where_more_wait():
    calm, busy = (speculation_cost_s(0.9, 0.1, 0.01, delay) for delay in (0.0, 10.0))
    assert (calm, busy) == (pytest.approx(0.01), pytest.approx(0.01 + 10 * 0.02))
