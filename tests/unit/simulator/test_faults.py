"""Faults strike at their rates, and equally for equal seeds."""

import random

import pytest

from heddle.simulator.faults import (
    DISK_FAULTS,
    LANE_FAULTS,
    NO_FAULTS,
    SERVER_FAULTS,
    Fault,
    FaultRates,
    FaultSource,
    strikes_at,
)

STEPS = 4_000


def drawn(rates, seed=1):
    source = FaultSource(rates, random.Random(seed), frozenset(Fault))
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


def test_a_kind_strikes_where_it_can_alone():
    rates = FaultRates(hang=0.5, disk_full=0.5)
    source = FaultSource(rates, random.Random(1), DISK_FAULTS)
    assert {source.next() for _ in range(100)} == {None, Fault.DISK_FULL}


def test_every_kind_has_one_place_and_a_rate():
    assert frozenset(Fault) == LANE_FAULTS | DISK_FAULTS | SERVER_FAULTS
    assert len(Fault) == len(LANE_FAULTS) + len(DISK_FAULTS) + len(SERVER_FAULTS)
    assert {fault.value for fault in Fault} == set(FaultRates.__slots__)


def test_what_may_not_strike_is_left_out_and_leaves_the_rest_alone():
    rates = FaultRates(hang=0.1, lose_lane=0.1)
    every = FaultSource(rates, random.Random(1))
    faults = [every.next() for _ in range(STEPS)]
    kept = every.struck[::2]
    some = FaultSource(rates, random.Random(1), allowed=frozenset(kept))
    assert [some.next() for _ in range(STEPS)] == [
        fault if at in kept else None for at, fault in enumerate(faults, start=1)
    ]
    assert some.struck == kept


def test_harm_is_what_makes_tasks_fail():
    source = FaultSource(FaultRates(slow_step=0.2, hang=0.2), random.Random(1))
    for _ in range(100):
        source.next()
    assert 0 < source.harm_done == source.drawn[Fault.HANG] < sum(source.drawn.values())


def test_strikes_are_told_apart_by_their_places():
    assert strikes_at("llm", {("llm", 3), ("llm@1", 4), ("disk", 5)}) == {3}
    assert strikes_at("llm", None) is None
