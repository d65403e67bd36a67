"""The online fit finds the costs behind step times."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.costs.linear_fit import LEARNT, SURPRISES, LinearFit

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


def test_steps_of_unknown_features_change_nothing() -> None:
    fit = fitted(noise=0.0)
    before = fit.snapshot().coefficients_s
    for _ in range(100):
        fit.observe({"other": 1.0}, 0.01)
    assert fit.snapshot().coefficients_s == before


PRIOR_S = {"call": 1e-3, "tokens": 1e-4, "context": 1e-6}
COST_S = {"call": 2e-3, "tokens": 5e-5, "context": 4e-6}
SAMPLES_AFTER_CHANGE = 300


def together(generator: random.Random) -> dict[str, float]:
    """Features of a step in which two always move together."""
    tokens = float(generator.randint(1, 500))
    return {"call": 1.0, "tokens": tokens, "context": 3 * tokens}


def cost_s(features: dict[str, float]) -> float:
    return sum(COST_S[name] * value for name, value in features.items())


@settings(max_examples=30)
@given(
    factor=st.floats(0.05, 20.0),
    samples=st.integers(LEARNT, 300),
    is_constant=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_change_of_all_costs_is_followed_though_features_move_together(
    factor: float, samples: int, is_constant: bool, seed: int
) -> None:
    generator, fit = random.Random(seed), LinearFit("lane", PRIOR_S)
    same = together(generator)
    for number in range(samples + SAMPLES_AFTER_CHANGE):
        features = same if is_constant else together(generator)
        fit.observe(features, cost_s(features) * (factor if number >= samples else 1.0))
    for features in [same] if is_constant else [together(generator) for _ in range(20)]:
        assert fit.predict_s(features) == pytest.approx(factor * cost_s(features), rel=0.2)


def test_a_device_ten_times_slower_is_noticed_at_once() -> None:
    generator, fit = random.Random(0), LinearFit("lane", PRIOR_S)
    for number in range(200 + SURPRISES):
        features = together(generator)
        noise = generator.uniform(0.8, 1.25)
        fit.observe(features, cost_s(features) * noise * (1.0 if number < 200 else 10.0))
    features = together(generator)
    assert fit.predict_s(features) == pytest.approx(10 * cost_s(features), rel=0.25)


def test_single_steps_that_take_far_longer_or_shorter_change_little() -> None:
    generator, fit = random.Random(0), LinearFit("lane", PRIOR_S)
    for number in range(400):
        features = together(generator)
        odd = {0: 10.0, 7: 0.1}.get(number % 20, 1.0)
        fit.observe(features, cost_s(features) * odd)
    features = together(generator)
    assert fit.predict_s(features) == pytest.approx(cost_s(features), rel=0.15)


def test_equal_steps_are_fitted_equally() -> None:
    fits = [LinearFit("lane", PRIOR_S) for _ in range(2)]
    for fit in fits:
        generator = random.Random(3)
        for number in range(120):
            features = together(generator)
            fit.observe(features, cost_s(features) * (1.0 if number < 60 else 4.0))
    assert fits[0].snapshot() == fits[1].snapshot()


def test_what_is_not_met_for_long_is_not_forgotten() -> None:
    generator, fit = (
        random.Random(0),
        LinearFit("lane", {"call": 1e-3, "tokens": 1e-4, "rare": 1e-2}),
    )

    def observe(features: dict[str, float]) -> None:
        fit.observe(
            features,
            step_s({n: v for n, v in features.items() if n != "rare"}, 1.0)
            + 3e-3 * features["rare"],
        )

    for _ in range(40):
        observe(
            {
                "call": 1.0,
                "tokens": float(generator.randint(1, 500)),
                "rare": float(generator.randint(0, 3)),
            }
        )
    for _ in range(3000):
        observe({"call": 1.0, "tokens": float(generator.randint(1, 500)), "rare": 0.0})
    assert fit.snapshot().coefficients_s["rare"] == pytest.approx(3e-3, rel=0.02)
