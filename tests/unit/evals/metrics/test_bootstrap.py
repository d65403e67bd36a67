import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.errors import InputError
from heddle.evals.metrics import bootstrap
from heddle.evals.metrics.bootstrap import estimate_difference, estimate_mean, resampled_means

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@settings(max_examples=40)
@given(SHARES, st.integers(0, 9))
def test_the_interval_holds_the_mean_and_stays_among_the_values(values, seed):
    found = estimate_mean(values, seed)
    assert found.low <= found.mean <= found.high
    assert min(values) - 1e-12 <= found.low
    assert found.high <= max(values) + 1e-12
    assert found.count == len(values)


def test_equal_seeds_give_equal_intervals():
    values = [0.0, 1.0, 1.0, 0.0, 1.0] * 8
    assert estimate_mean(values, 3) == estimate_mean(values, 3)
    assert estimate_mean(values, 3) != estimate_mean(values, 4)


def test_close_to_the_normal_interval_of_a_share():
    values = [1.0] * 300 + [0.0] * 100
    found = estimate_mean(values, 0)
    half = 1.96 * np.sqrt(0.75 * 0.25 / 400)
    assert found.mean == 0.75
    assert found.low == pytest.approx(0.75 - half, abs=0.01)
    assert found.high == pytest.approx(0.75 + half, abs=0.01)


def test_pairs_that_agree_make_the_difference_clear():
    rng = np.random.default_rng(0)
    there = rng.random(60)
    here = there + 0.05
    found = estimate_difference(list(here), list(there), 0)
    assert found.low == pytest.approx(0.05)
    assert found.high == pytest.approx(0.05)
    # Unpaired, the intervals of the same two runs overlap.
    assert estimate_mean(list(here), 0).low < estimate_mean(list(there), 0).high


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_differences_are_antisymmetric(pairs):
    here, there = zip(*pairs, strict=True)
    one, other = estimate_difference(here, there, 0), estimate_difference(there, here, 0)
    assert one.mean == pytest.approx(-other.mean, abs=1e-12)
    assert one.low == pytest.approx(-other.high, abs=1e-9)


def test_blocks_give_all_draws(monkeypatch):
    columns = np.arange(12.0).reshape(6, 2)
    monkeypatch.setattr(bootstrap, "_BLOCK_DRAWS", 6 * 7)
    draws = resampled_means(columns, 0)
    assert draws.shape == (bootstrap.RESAMPLES, 2)
    # Both columns see the same draws, and every draw differs from the others.
    assert np.allclose(draws[:, 1] - draws[:, 0], 1.0)
    assert len(np.unique(draws[:, 0])) > 20


def test_refusals():
    with pytest.raises(InputError, match="at least one value"):
        estimate_mean([], 0)
    with pytest.raises(InputError, match="got 2 and 1"):
        estimate_difference([0.0, 1.0], [1.0], 0)
