"""The stretch keeps the share of late answers down, for every cause of lateness."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.costs.late_guard import (
    LATE_FROM,
    LATE_TARGET,
    STRETCH_MAX,
    STRETCH_START,
    STRETCH_STEP,
    LateGuard,
)

ANSWERS = 20_000


def test_one_late_answer_counts_as_much_as_many_in_time() -> None:
    guard = LateGuard(1.0)
    guard.answered(1.2)
    after = guard.stretch
    assert after > 1
    for _ in range(round(1 / LATE_TARGET)):
        guard.answered(0.5)
    assert guard.stretch == pytest.approx(1)


def test_it_starts_careful_and_answers_in_time_undo_that() -> None:
    guard, answers = LateGuard(), 0
    while guard.stretch > 1:
        guard.answered(0.5)
        answers += 1
    assert answers == pytest.approx((STRETCH_START - 1) / (STRETCH_STEP * LATE_TARGET), abs=2)


def test_nearly_late_counts_as_late() -> None:
    guard = LateGuard(1.0)
    guard.answered(LATE_FROM - 1e-6)
    assert guard.stretch == 1
    guard.answered(LATE_FROM + 1e-6)
    assert guard.stretch > 1


@given(used=st.lists(st.floats(0, 10), max_size=300))
def test_it_stays_within_its_bounds(used: list[float]) -> None:
    guard = LateGuard()
    for time_used in used:
        guard.answered(time_used)
        assert 1 <= guard.stretch <= STRETCH_MAX


@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.3])
def test_the_share_of_late_answers_comes_to_the_target_whatever_the_noise(sigma: float) -> None:
    """Queries are admitted so that they would just be in time if the stretch were right."""
    rng, guard, late = random.Random(1), LateGuard(), 0
    for _ in range(ANSWERS):
        time_used = rng.lognormvariate(0.0, sigma) * LATE_FROM / guard.stretch
        late += time_used > LATE_FROM
        guard.answered(time_used)
    assert late / ANSWERS <= LATE_TARGET + STRETCH_MAX / STRETCH_STEP / ANSWERS
