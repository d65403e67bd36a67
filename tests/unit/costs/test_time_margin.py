"""The margin of a few batches and of many, with and without outliers."""

import numpy as np
import pytest

from heddle.costs.time_margin import CONFIDENCE, STUDENT_T, time_margin

DRAWS = 2_000


@pytest.mark.parametrize("count", [2, 3, 15, 18, 19, 100])
def test_one_more_batch_keeps_the_margin_as_often_as_promised(count: int) -> None:
    """Of 19 batches and more however they are distributed, of fewer if they are normal."""
    rng = np.random.default_rng(count)
    drawn = 2 + 0.1 * rng.standard_normal((DRAWS, count + 1))
    kept = [ratios[-1] <= time_margin(ratios[:-1]).bound for ratios in drawn]
    assert np.mean(kept) == pytest.approx(CONFIDENCE, abs=0.02)


def test_the_bounds_of_few_and_of_many_meet() -> None:
    rng = np.random.default_rng(0)
    drawn = 1.5 + 0.05 * rng.standard_normal((DRAWS, 19))
    few = np.mean([time_margin(ratios[:18]).bound for ratios in drawn])
    many = np.mean([time_margin(ratios).bound for ratios in drawn])
    assert len(STUDENT_T) == 17
    assert few == pytest.approx(many, abs=0.02)


def test_one_slow_batch_of_few_does_not_decide() -> None:
    ratios = np.array([0.99, 1.0, 1.01] * 5)
    ratios[7] = 1.25
    assert 1.05 < time_margin(ratios).bound < 1.2


@pytest.mark.parametrize(("count", "slow", "is_covered"), [(12, 1, False), (60, 2, True)])
def test_outliers_are_covered_where_they_are_few_in_many(
    count: int, slow: int, is_covered: bool
) -> None:
    ratios = np.ones(count)
    ratios[:slow] = 3.0
    found = time_margin(ratios)
    assert found.outlier_share == slow / count
    assert (time_margin(np.ones(count)).bound, found.bound) == (1.0, 1.0)
    ratios[slow : 2 * slow] = 1.2
    assert (time_margin(ratios).bound >= 1.2) == is_covered


def test_too_many_outliers_are_named_and_not_covered() -> None:
    ratios = np.ones(40)
    ratios[:4] = 3.0
    assert time_margin(ratios) == (1.0, 0.1)


@pytest.mark.parametrize("ratios", [[], [0.8]])
def test_a_margin_never_makes_a_prediction_smaller(ratios: list[float]) -> None:
    assert time_margin(np.array(ratios)) == (1.0, 0.0)
