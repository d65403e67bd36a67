"""A device takes virtual time, with jitter, and breaks once when told to."""

import random

import pytest

from heddle.simulator.device import DeviceError, SimulatedDevice
from heddle.simulator.timeline import Timeline


def device(**options):
    return SimulatedDevice(Timeline(time_s=5.0), random.Random(1), **options)


def test_work_moves_the_lane_s_clock_and_not_the_world_s():
    lane = device(jitter_share=0.0)
    lane.run(0.25)
    assert lane.now_s() == 5.25
    assert lane.clock.now_s() == 5.0
    assert lane.take_spent_s() == 0.25
    assert lane.now_s() == 5.0


def test_jitter_stays_within_its_share():
    lane = device(jitter_share=0.2)
    for _ in range(100):
        lane.run(1.0)
        assert 0.8 <= lane.take_spent_s() <= 1.2


def test_a_slow_step_is_slow_once():
    lane = device(jitter_share=0.0, slowness=20.0)
    lane.run(1.0)
    assert lane.take_spent_s() == 20.0
    lane.run(1.0)
    assert lane.take_spent_s() == 1.0


def test_a_broken_device_fails_one_piece_of_work_and_takes_its_time():
    lane = device(jitter_share=0.0, is_broken=True)
    with pytest.raises(DeviceError):
        lane.run(1.0)
    lane.run(1.0)
    assert lane.take_spent_s() == 2.0
