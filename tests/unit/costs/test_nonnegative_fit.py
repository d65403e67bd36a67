"""The fit against a search of all supports by another solver, and against outliers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.costs.nonnegative_fit import fit_nonnegative

TOKENS = np.array([75, 150, 300, 600, 1200, 2400, 75, 150, 300, 600, 1200, 2400], float)


def features(tokens: np.ndarray) -> np.ndarray:
    return np.stack([np.ones_like(tokens), tokens, tokens * 75], axis=1)


def test_returns_exact_coefficients_of_exact_times() -> None:
    lengths = np.array([16, 32, 64, 128, 256, 512] * 2, float)
    rows = np.array([1, 2, 4, 8, 3, 1, 7, 5, 1, 2, 2, 3], float)
    shapes = np.stack([np.ones(12), rows * lengths, rows * lengths**2], axis=1)
    true = np.array([7e-3, 1.65e-4, 6.6e-8])
    np.testing.assert_allclose(fit_nonnegative(shapes, shapes @ true), true, rtol=1e-6)


def test_no_coefficient_is_negative_where_plain_least_squares_has_one() -> None:
    seconds = 1e-4 * TOKENS - 2e-3 + 1e-9
    plain = np.linalg.lstsq(features(TOKENS)[:, :2], seconds, rcond=None)[0]
    assert plain[0] < 0
    assert (fit_nonnegative(features(TOKENS)[:, :2], seconds) >= 0).all()


def test_of_two_features_that_say_the_same_the_first_is_taken() -> None:
    fitted = fit_nonnegative(features(TOKENS), 5e-3 + 2e-4 * TOKENS)
    np.testing.assert_allclose(fitted, [5e-3, 2e-4, 0.0], rtol=1e-6)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_outliers_move_the_prediction_little(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = np.array([7e-3, 1.65e-4])
    rows = np.repeat(features(TOKENS)[:, :2], 5, axis=0)
    seconds = rows @ true * np.exp(rng.normal(0, 0.02, len(rows)))
    seconds[rng.choice(len(rows), 4, replace=False)] *= 4.0
    fitted = fit_nonnegative(rows, seconds)
    np.testing.assert_allclose(rows @ fitted, rows @ true, rtol=0.05)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_the_optimum_fulfils_the_conditions_of_the_constrained_problem(seed: int) -> None:
    """Karush-Kuhn-Tucker of the unweighted problem: no outliers, so no weight is below 1."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(0.1, 1.0, (30, 3))
    seconds = rows @ np.array([1.0, -0.4, 0.5]) + 0.7
    relative = rows / seconds[:, None]
    fitted = fit_nonnegative(rows, seconds)
    residuals = 1 - relative @ fitted
    limit = 1.345 * 1.4826 * np.median(np.abs(residuals))
    weights = np.minimum(1.0, limit / np.maximum(np.abs(residuals), limit))
    gradient = -(relative * weights[:, None]).T @ residuals
    assert (gradient[fitted == 0] >= -0.02).all()
    assert gradient[fitted > 0] == pytest.approx(0, abs=0.02)
