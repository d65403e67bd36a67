"""Faults strike at their rates, and equally for equal seeds."""

import random

import pytest

from heddle.simulator.faults import NO_FAULTS, Fault, FaultRates, FaultSource

STEPS = 4_000


def drawn(rates, seed=1):
    source = FaultSource(rates, random.Random(seed))
    return [source.next() for _ in range(STEPS)], source.drawn


def test_nothing_strikes_without_rates():
    faults, counts = drawn(NO_FAULTS)
    assert set(faults) == {None}
    assert not counts


@pytest.mark.parametrize("fault", Fault)
def test_each_has_a_rate_of_its_own(fault):
    faults, counts = drawn(FaultRates(**{fault.value: 0.1}))
    assert set(faults) == {None, fault}
    assert counts[fault] == faults.count(fault)
    assert 0.08 < counts[fault] / STEPS < 0.12


def test_equal_seeds_draw_equally():
    rates = FaultRates(0.01, 0.02, 0.03, 0.04, 0.05, 0.06)
    assert drawn(rates)[0] == drawn(rates)[0] != drawn(rates, seed=2)[0]
