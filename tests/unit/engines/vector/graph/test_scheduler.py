"""Order and amounts: pure arithmetic."""

import math

import pytest

from heddle.engines.vector.graph.scheduler import (
    EXTENDS_MAX,
    STRETCH,
    in_extends,
    slack_s,
    soft_deadline_s,
)


def test_slack_counts_the_work_that_is_left():
    ends_s, left = (10.0, 11.0, 12.0), (1.0, 9.0, 2.0)
    for extend_s, order in ((0.0, [0, 1, 2]), (1.0, [1, 0, 2])):
        slacks_s = [slack_s(end, n, extend_s) for end, n in zip(ends_s, left, strict=True)]
        assert sorted(range(3), key=slacks_s.__getitem__) == order


@pytest.mark.parametrize(
    ("seconds", "extend_s", "expected"),
    [
        (1.0, 0.125, 8),
        (0.01, 0.1, 0),
        (-1.0, 0.1, 0),
        (math.inf, 0.1, EXTENDS_MAX),
        (1.0, 0.0, EXTENDS_MAX),
    ],
)
def test_seconds_become_a_bounded_number_of_extends(seconds, extend_s, expected):
    assert in_extends(seconds, extend_s) == expected


def test_a_deadline_given_counts_only_if_it_is_sooner():
    assert soft_deadline_s(5.0, math.inf, 2.0) == 5.0 + 2.0 * STRETCH
    assert soft_deadline_s(5.0, 1.0, 2.0) == 6.0
