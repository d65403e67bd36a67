"""The online fit finds the costs behind step times."""

import random

import pytest

from heddle.costs.linear_fit import LinearFit

TRUE_S = {"call": 2e-3, "tokens": 5e-5}


def step_s(features: dict[str, float], noise: float) -> float:
    return sum(TRUE_S[name] * value for name, value in features.items()) * noise


def fitted(noise: float, steps: int = 400) -> LinearFit:
    generator = random.Random(0)
    fit = LinearFit("lane", {"call": 1e-3, "tokens": 1e-4})
    for _ in range(steps):
        features = {"call": 1.0, "tokens": float(generator.randint(1, 500))}
        fit.observe(features, step_s(features, generator.uniform(1 - noise, 1 + noise)))
    return fit


def test_finds_exact_costs() -> None:
    snapshot = fitted(noise=0.0).snapshot()
    assert snapshot.coefficients_s == pytest.approx(TRUE_S, rel=1e-3)


def test_noise_averages_out() -> None:
    features = {"call": 1.0, "tokens": 200.0}
    assert fitted(noise=0.3).predict_s(features) == pytest.approx(step_s(features, 1.0), rel=0.1)


def test_starts_at_the_prior() -> None:
    fit = LinearFit("lane", {"call": 1e-3, "tokens": 1e-4})
    assert fit.predict_s({"call": 1, "tokens": 10}) == pytest.approx(2e-3)
    assert fit.snapshot().predict_s({"call": 1, "tokens": 10}) == pytest.approx(2e-3)


def test_follows_a_machine_that_became_slower() -> None:
    fit = fitted(noise=0.1)
    for _ in range(1000):
        fit.observe({"call": 1.0, "tokens": 100.0}, 3 * step_s({"call": 1, "tokens": 100}, 1.0))
    expected = 3 * step_s({"call": 1, "tokens": 100}, 1.0)
    assert fit.predict_s({"call": 1.0, "tokens": 100.0}) == pytest.approx(expected, rel=0.05)


def test_versions_grow_and_never_predict_below_zero() -> None:
    fit = LinearFit("lane", {"call": 1e-3, "tokens": 1e-4})
    before = fit.snapshot().version
    fit.observe({"call": 1.0, "tokens": 50.0}, 0.0)
    assert fit.snapshot().version > before
    assert fit.predict_s({"call": 1.0, "tokens": 0.0}) >= 0.0
