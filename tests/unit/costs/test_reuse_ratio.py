from hypothesis import given
from hypothesis import strategies as st

from heddle.costs.reuse_ratio import RATIOS, largest_ratio


def test_the_largest_ratio_that_is_in_time_is_taken():
    assert largest_ratio(1000, 0.001, 1.0) == 1.0
    assert largest_ratio(1000, 0.001, 0.999) == 0.5
    assert largest_ratio(1000, 0.001, 0.16) == 0.15
    assert largest_ratio(1000, 0.001, 0.01) == 0.0


def test_without_time_or_tokens_it_is_one_end_of_the_grid():
    assert largest_ratio(1000, 0.001, -5.0) == 0.0
    assert largest_ratio(0, 0.001, 0.0) == 1.0


@given(st.integers(0, 10_000), st.floats(1e-6, 1.0), st.floats(-1e3, 1e4))
def test_no_larger_ratio_would_be_in_time(tokens, token_s, left_s):
    chosen = largest_ratio(tokens, token_s, left_s)
    assert chosen in RATIOS
    assert chosen == 0.0 or chosen * tokens * token_s <= left_s
    assert all(ratio * tokens * token_s > left_s for ratio in RATIOS if ratio > chosen)
