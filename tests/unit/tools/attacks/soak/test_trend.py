"""The slope of measurements."""

import pytest

from tools.attacks.soak.trend import slope


def test_a_line_has_its_own_slope() -> None:
    assert slope([(0, 7.0), (1, 10.0), (3, 16.0)]) == pytest.approx(3)


def test_errors_to_both_sides_cancel_out() -> None:
    points = [(0.0, 1.0), (1.0, -1.0), (2.0, -1.0), (3.0, 1.0)]
    assert slope(points) == pytest.approx(0)


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 3.0)]])
def test_one_place_has_none(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="take more samples"):
        slope(points)


def test_one_measurement_that_is_far_off_does_not_move_it() -> None:
    points = [(float(x), 3.0 * x) for x in range(11)]
    points[8] = (8.0, -900.0)
    assert slope(points) == pytest.approx(3)
