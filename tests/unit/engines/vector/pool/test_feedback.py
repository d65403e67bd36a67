"""The control loop turns the right knob, and never past its stop."""

from dataclasses import replace

import pytest

from heddle.engines.vector.pool.feedback import PoolSignals, PoolTargets, adjusted
from heddle.engines.vector.pool.limits import FLUSH_FLOOR, SHARE_MAX, SHARE_MIN, PoolKnobs
from heddle.engines.vector.pool.meters import PoolMeters
from heddle.engines.vector.pool.requests import Stage

TARGETS = PoolTargets(prefill_wait_s=0.1)
KNOBS = PoolKnobs(0.5, 0.01, 0.05)


@pytest.mark.parametrize(
    ("signals", "moves"),
    [
        (PoolSignals(1.0, 0.2, 0.0), 1),  # waits too long
        (PoolSignals(1.0, 0.2, 0.5), 1),  # prefill has first-class protection
        (PoolSignals(0.3, 0.05, 0.0), 1),  # the link idles
        (PoolSignals(0.3, 0.05, 0.5), -1),  # but decode is what stalls
        (PoolSignals(1.0, 0.05, 0.5), -1),
        (PoolSignals(1.0, 0.05, 0.0), 0),
        (PoolSignals(0.0, 0.0, 0.0), 0),  # nothing comes: nothing to learn
    ],
)
def test_the_share_and_the_timeout_move_together(signals, moves):
    after = adjusted(KNOBS, signals, TARGETS)
    assert (after.share > 0.5) - (after.share < 0.5) == moves
    timeout = KNOBS.prefill_wait_s_max
    assert (after.prefill_wait_s_max < timeout) - (after.prefill_wait_s_max > timeout) == moves


@pytest.mark.parametrize(
    ("signals", "share", "wait_s"),
    [
        (PoolSignals(1, 9.0, 0), SHARE_MAX, FLUSH_FLOOR * 0.05),
        (PoolSignals(1, 0.0, 1), SHARE_MIN, 0.05),
    ],
)
def test_the_share_and_the_timeout_stop_at_their_bounds(signals, share, wait_s):
    knobs = PoolKnobs.flushing(0.05)
    for _ in range(30):
        knobs = adjusted(knobs, signals, TARGETS)
    assert (knobs.share, knobs.prefill_wait_s_max) == (share, wait_s)


def test_a_timeout_finds_back_from_its_floor_and_none_begins_by_itself():
    knobs = replace(KNOBS, prefill_wait_s_max=FLUSH_FLOOR * KNOBS.wait_s_max)
    for _ in range(8):  # 2.4 s
        knobs = adjusted(knobs, PoolSignals(1, 0.0, 1), TARGETS)
    assert knobs.prefill_wait_s_max == KNOBS.wait_s_max
    never = PoolKnobs.flushing(0.0)
    for signals in (PoolSignals(1, 0.0, 1), PoolSignals(1, 9.0, 0)):
        never = adjusted(never, signals, TARGETS)
    assert (never.prefill_wait_s_max, never.wait_s_max) == (0.0, 0.0)


def test_meters_report_and_begin_anew():
    meters = PoolMeters(1.0)
    for i in range(100):
        meters.waited(Stage.PREFILL, i / 100)
    meters.waited(Stage.DECODE, 99.0)
    meters.decoded(1.0, 3.0)
    signals = meters.take_signals(0.4)
    assert signals == PoolSignals(0.4, 0.94, 0.25)
    assert meters.take_signals(0.4) == PoolSignals(0.4, 0.0, 0.0)
    for _ in range(200):
        meters.ran(Stage.DECODE, 2.0, 6.0)
    assert meters.alone_s(Stage.DECODE, 1.0) == pytest.approx(3.0, rel=1e-3)
    assert meters.alone_s(Stage.DECODE, 20.0) == pytest.approx(60.0, rel=1e-3)
    assert meters.alone_s(Stage.PREFILL, 1.0) == 1.0
