"""A lane that is followed: refits, drift, outliers that are named, big batches kept in mind."""

import random

import pytest

from heddle.costs.batch_cost import BatchCost, BatchShape
from heddle.costs.lane_cost import (
    CAUTION,
    SAY_EVERY_S,
    CostChange,
    CostNews,
    LaneCost,
    Sample,
)

LENGTH = 75
TRUE = BatchCost(7e-3, 1.65e-4)
ASKED = BatchShape.uniform(16, LENGTH)


def follow(
    lane: LaneCost,
    true: BatchCost,
    batches: int,
    rng: random.Random,
    outliers: float = 0.0,
    rows_max: int = 32,
) -> list[CostNews]:
    news = []
    for i in range(batches):
        shape = BatchShape.uniform(rng.randint(1, rows_max), LENGTH)
        factor = rng.uniform(1.5, 3.0) if rng.random() < outliers else rng.gauss(1.0, 0.04)
        found = lane.observe(shape, factor * true.predict_s(shape), now_s=0.1 * i)
        if found is not None:
            news.append(found)
    return news


def test_a_wrong_prior_is_forgotten() -> None:
    lane = LaneCost("cpu0", BatchCost(1e-3, 1e-5))
    follow(lane, TRUE, 200, random.Random(1))
    assert lane.cost.predict_s(ASKED) == pytest.approx(TRUE.predict_s(ASKED), rel=0.03)
    assert 1.02 < lane.margin < 1.15


def test_a_few_timed_batches_are_a_start() -> None:
    shapes = [BatchShape.uniform(rows, LENGTH) for rows in (1, 2, 4, 8, 16)] * 3
    lane = LaneCost.fitted("cpu0", [Sample(s, TRUE.predict_s(s)) for s in shapes], 0.0)
    assert lane.cost.predict_s(ASKED) == pytest.approx(TRUE.predict_s(ASKED))
    assert lane.margin == pytest.approx(1.0)


@pytest.mark.parametrize(("longest", "is_told"), [(25, False), (300, True)])
def test_squares_are_learnt_from_texts_that_are_long_enough(longest: int, is_told: bool) -> None:
    """Of short ones they would be noise, which a long text's square makes seconds of."""
    true, rng = BatchCost(7e-3, 1.65e-4, 2e-7), random.Random(4)
    shapes = [BatchShape.uniform(1, length) for length in (6, 13, longest)] * 3
    samples = [Sample(shape, rng.gauss(1.0, 0.02) * true.predict_s(shape)) for shape in shapes]
    assert (LaneCost.fitted("cpu0", samples, 0.0).cost.square_s > 0) == is_told


def test_the_bound_holds_for_most_batches_that_come_later() -> None:
    rng = random.Random(2)
    lane = LaneCost("cpu0", TRUE)
    follow(lane, TRUE, 300, rng)
    late = 0
    for _ in range(400):
        shape = BatchShape.uniform(rng.randint(1, 32), LENGTH)
        bound_s = lane.margin * lane.cost.predict_s(shape)
        late += rng.gauss(1.0, 0.04) * TRUE.predict_s(shape) > bound_s
    assert 0.01 <= late / 400 <= 0.09


def test_drift_raises_an_alarm_and_halves_the_depth_for_a_while() -> None:
    rng = random.Random(3)
    lane = LaneCost("cpu0", TRUE)
    follow(lane, TRUE, 100, rng)
    news = follow(lane, TRUE.scaled(2.0), 12, rng)
    assert news[0].reason is CostChange.DRIFT
    assert "halved" in news[0].message
    assert lane.caution == CAUTION
    follow(lane, TRUE.scaled(2.0), 64, rng)
    assert lane.caution == 1.0
    assert lane.cost.predict_s(ASKED) == pytest.approx(2 * TRUE.predict_s(ASKED), rel=0.05)


def test_a_speed_that_keeps_changing_is_counted_each_time_and_said_once_a_minute() -> None:
    lane, rng, said = LaneCost("cpu0", TRUE), random.Random(9), []
    for i in range(1200):  # two minutes
        shape = BatchShape.uniform(rng.randint(1, 32), LENGTH)
        true = TRUE.scaled(2.0 if i // 40 % 2 else 1.0)
        news = lane.observe(shape, true.predict_s(shape), now_s=0.1 * i)
        if news is not None and news.reason is CostChange.DRIFT and news.message:
            said.append(0.1 * i)
    assert len(said) == 2
    assert said[1] - said[0] >= SAY_EVERY_S
    assert lane.refits[CostChange.DRIFT] > 20


def test_a_lane_that_became_faster_is_noticed_too() -> None:
    rng = random.Random(4)
    lane = LaneCost("cpu0", TRUE.scaled(3.0))
    follow(lane, TRUE.scaled(3.0), 100, rng)
    follow(lane, TRUE, 64, rng)
    assert lane.cost.predict_s(ASKED) == pytest.approx(TRUE.predict_s(ASKED), rel=0.05)


def test_a_lane_of_one_size_of_batch_is_followed_by_its_speed() -> None:
    rng = random.Random(5)
    lane = LaneCost("cpu0", TRUE)
    follow(lane, TRUE.scaled(1.5), 80, rng, rows_max=1)
    assert lane.cost.predict_s(ASKED) == pytest.approx(1.5 * TRUE.predict_s(ASKED), rel=0.05)
    assert lane.cost.latency_intercept_s == pytest.approx(1.5 * 7e-3, rel=0.05)


def test_a_noisy_neighbour_is_named_and_shrinks_nothing() -> None:
    rng = random.Random(6)
    lane = LaneCost("cpu0", TRUE)
    news = follow(lane, TRUE, 400, rng, outliers=0.12)
    noisy = [n for n in news if n.reason is CostChange.NOISY_NEIGHBOUR]
    assert noisy
    assert "noisy neighbour" in noisy[0].message
    assert lane.margin < 1.3
    assert lane.cost.predict_s(ASKED) == pytest.approx(TRUE.predict_s(ASKED), rel=0.06)


def test_few_outliers_are_no_news() -> None:
    lane = LaneCost("cpu0", TRUE)
    news = follow(lane, TRUE, 400, random.Random(7), outliers=0.02)
    assert {n.reason for n in news} == {CostChange.ROUTINE}


def test_idle_hours_of_small_batches_do_not_forget_big_ones() -> None:
    rng = random.Random(8)
    lane = LaneCost("cpu0", BatchCost(7e-3, 1.65e-4))
    big = BatchShape.uniform(1, 512)
    for i in range(16):
        lane.observe(big, TRUE.predict_s(big) + 6.6e-8 * big.squares, now_s=0.1 * i)
    follow(lane, TRUE, 700, rng, rows_max=3)
    exact_s = TRUE.predict_s(big) + 6.6e-8 * big.squares
    assert lane.cost.predict_s(big) == pytest.approx(exact_s, rel=0.1)
