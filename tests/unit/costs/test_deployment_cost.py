"""Eqs. 5 and 6, and what the paper's own tables say that offloading saves."""

import pytest

from heddle.core.errors import ConfigError
from heddle.costs.deployment_cost import Deployment, Offloading


def test_costs_of_rate_and_peak() -> None:
    deployment = Deployment(devices=2, price=3.0)
    assert deployment.cost_by_throughput(100, 50) == pytest.approx(12)
    assert deployment.cost_by_concurrency(880, 44) == pytest.approx(120)
    assert deployment.devices_for_peak(881, 44) == 42


@pytest.mark.parametrize(
    ("fast", "slow", "gain", "saving"),
    [(44, 8, 0.182, 0.154), (96, 22, 0.229, 0.186), (112, 30, 0.268, 0.211)],
)
def test_the_papers_gains(fast: int, slow: int, gain: float, saving: float) -> None:
    offloading = Offloading(fast, slow)
    assert offloading.concurrency_gain == pytest.approx(gain, abs=5e-4)
    assert offloading.peak_saving == pytest.approx(saving, abs=5e-4)


def test_saved_devices_are_those_of_eq_6() -> None:
    alone = Deployment().cost_by_concurrency(1000, 96)
    both = Deployment().cost_by_concurrency(1000, 96 + 22)
    assert 1 - both / alone == pytest.approx(Offloading(96, 22).peak_saving)


def test_nothing_is_gained_without_a_fast_lane() -> None:
    assert Offloading(0, 0).peak_saving == Offloading(0, 3).concurrency_gain == 0


def test_a_depth_of_nothing_serves_no_peak() -> None:
    with pytest.raises(ConfigError, match="depth"):
        Deployment().cost_by_concurrency(10, 0)
