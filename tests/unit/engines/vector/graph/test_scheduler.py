"""Order and quantum: pure arithmetic."""

import math

import numpy as np
import pytest

from heddle.engines.vector.graph.scheduler import (
    STRETCH,
    SearchRows,
    by_slack,
    quantum,
    soft_deadline_s,
)


def test_slack_counts_the_work_that_is_left():
    rows = SearchRows(
        priorities=np.array([0, 0, 0]),
        deadlines_s=np.array([10.0, 11.0, 12.0]),
        extends_left=np.array([1.0, 9.0, 2.0]),
    )
    assert by_slack(rows, 0.0).tolist() == [0, 1, 2]
    assert by_slack(rows, 1.0).tolist() == [1, 0, 2]


def test_the_class_comes_before_slack():
    rows = SearchRows(np.array([1, 0]), np.array([1.0, 99.0]), np.array([1.0, 1.0]))
    assert by_slack(rows, 1.0).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("budget_s", "extend_s", "left", "expected"),
    [
        (1.0, 0.1, 100.0, 10),
        (0.01, 0.1, 100.0, 1),  # one is always made
        (-1.0, 0.1, 100.0, 1),
        (100.0, 0.1, 10.0, 20),
        (math.inf, 0.1, 10.0, 20),
        (1.0, 0.0, 10.0, 20),
    ],
)
def test_the_quantum_fills_the_budget(budget_s, extend_s, left, expected):
    assert quantum(budget_s, extend_s, left) == expected


def test_a_deadline_given_counts_only_if_it_is_sooner():
    assert soft_deadline_s(5.0, math.inf, 2.0) == 5.0 + 2.0 * STRETCH
    assert soft_deadline_s(5.0, 1.0, 2.0) == 6.0
