import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.vector.recall.recall_window import RecallWindow, lower_bound


@given(st.floats(0, 1), st.integers(1, 5000))
def test_a_bound_is_below_the_mean_and_closer_the_more_there_are(mean, count):
    bound = lower_bound(mean, count)
    assert 0 <= bound <= mean
    assert lower_bound(mean, 2 * count) >= bound


def test_the_bound_holds_as_often_as_it_says():
    rng = np.random.default_rng(0)
    means = rng.beta(8, 1, (2000, 60)).mean(axis=1)  # of recalls with an expectation of 8 / 9
    assert np.mean([lower_bound(mean, 60) > 8 / 9 for mean in means]) <= 0.05


def test_all_found_in_a_hundred_proves_nearly_all():
    assert lower_bound(1.0, 100) == pytest.approx(0.05 ** (1 / 100))


def test_a_window_forgets_what_is_old():
    window = RecallWindow(3)
    assert window.estimate is None
    for recall in (0.0, 1.0, 0.5, 1.0):
        window.add(recall)
    assert window.estimate.recall == pytest.approx(2.5 / 3)
    assert window.estimate.checks == 3


def test_only_what_chance_hardly_explains_is_below_a_promise():
    window = RecallWindow(200)
    for _ in range(20):
        window.add(0.9)
    assert not window.is_below(0.95)
    for _ in range(180):
        window.add(0.85)
    assert window.is_below(0.95)
