"""Frames without events go with the engine's next that has some, and don't wait for long."""

import math

import pytest

from heddle.core.frames import Failed, Frame
from heddle.hosts.wire.held_frames import HELD_S, HeldFrames


def frame(number, *events, age_s=0.0):
    age_s = pytest.approx(age_s) if age_s else 0.0
    return Frame("vector", 1, 0.001, events, number=number, age_s=age_s)


def test_one_with_an_event_takes_those_of_its_engine_along():
    held, told = HeldFrames(), frame(3, Failed(7, "it broke"))
    assert held.add(0, frame(1), 0.0) == ()
    assert held.add(1, frame(1), 0.0) == ()
    assert held.add(0, frame(2), 0.01) == ()
    sent = held.add(0, told, 0.03)
    assert sent == (frame(1, age_s=0.03), frame(2, age_s=0.02), told)
    assert held.take(0.04) == {1: (frame(1, age_s=0.04),)}


def test_they_are_due_by_the_oldest_and_taken_once():
    held = HeldFrames()
    assert held.due_s == math.inf
    held.add(0, frame(1), 3.0)
    held.add(0, frame(2), 3.0 + HELD_S / 2)
    assert held.due_s == 3.0 + HELD_S
    assert held.take(3.0 + HELD_S) == {0: (frame(1, age_s=HELD_S), frame(2, age_s=HELD_S / 2))}
    assert held.take(4.0) == {}
    assert held.due_s == math.inf
