"""Heat orders by decayed use counts, whenever two heats are compared."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.kv.heat import COLD, uses, warmed

HALF_LIFE_S = 10.0


def heat_of(times):
    heat = COLD
    for now_s in times:
        heat = warmed(heat, now_s, HALF_LIFE_S)
    return heat


def decayed(times, now_s):
    return sum(2 ** ((t - now_s) / HALF_LIFE_S) for t in times)


times = st.lists(st.floats(0, 500), max_size=12).map(sorted)


def test_a_use_counts_half_after_its_half_life():
    assert uses(heat_of([0.0]), 0.0, HALF_LIFE_S) == pytest.approx(1.0)
    assert uses(heat_of([0.0]), 10.0, HALF_LIFE_S) == pytest.approx(0.5)
    assert uses(COLD, 10.0, HALF_LIFE_S) == 0.0


@settings(max_examples=100, derandomize=True)
@given(times, times, st.floats(500, 600))
def test_heat_is_the_decayed_count_and_orders_like_it(one, other, now_s):
    mine, theirs = decayed(one, now_s), decayed(other, now_s)
    assert uses(heat_of(one), now_s, HALF_LIFE_S) == pytest.approx(mine)
    if not math.isclose(mine, theirs, rel_tol=1e-9):
        assert (heat_of(one) < heat_of(other)) == (mine < theirs)


def test_long_clocks_do_not_overflow():
    heat = heat_of([0.0, 1e9])
    assert uses(heat, 1e9, HALF_LIFE_S) == pytest.approx(1.0)
