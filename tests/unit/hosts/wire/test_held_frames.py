"""Frames that tell of no task go with the next that does, and are not held for long."""

import math

from heddle.core.frames import Failed, Frame
from heddle.hosts.wire.held_frames import HELD_S, HeldFrames


def frame(number, *events):
    return Frame("vector", 1, 0.001, events, number=number)


def test_one_that_tells_of_a_task_takes_those_of_its_engine_along():
    held, told = HeldFrames(), frame(3, Failed(7, "it broke"))
    assert held.add(0, frame(1), 0.0) == ()
    assert held.add(1, frame(1), 0.0) == ()
    assert held.add(0, frame(2), 0.01) == ()
    assert held.add(0, told, 0.02) == (frame(1), frame(2), told)
    assert held.take() == {1: (frame(1),)}


def test_they_are_due_by_the_oldest_and_taken_once():
    held = HeldFrames()
    assert held.due_s == math.inf
    held.add(0, frame(1), 3.0)
    held.add(0, frame(2), 3.0 + HELD_S / 2)
    assert held.due_s == 3.0 + HELD_S
    assert held.take() == {0: (frame(1), frame(2))}
    assert held.take() == {}
    assert held.due_s == math.inf
