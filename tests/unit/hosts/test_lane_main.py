"""How a lane tells a hung step from one that waits for a core."""

import os
import socket
import time

import pytest

from heddle.hosts import lane_main
from heddle.hosts.channel import Channel
from heddle.hosts.lane_main import Pulse, waited_for_core_s
from heddle.runtime.supervision import Heartbeat


@pytest.fixture
def pulse() -> Pulse:
    ours, theirs = socket.socketpair()
    theirs.close()
    pulse = Pulse(Channel(ours), 1.0)
    yield pulse
    ours.close()


def test_waiting_time_never_falls() -> None:
    before_s = waited_for_core_s()
    assert 0 <= before_s <= waited_for_core_s()


def test_time_without_a_core_does_not_count(pulse: Pulse, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = iter([5.0, 9.0])
    monkeypatch.setattr(lane_main, "waited_for_core_s", lambda: next(waits))
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    pulse.enter("llm", 0.2)
    pulse._beat()  # the first beat of a step takes its baseline
    monkeypatch.setattr(time, "monotonic", lambda: 106.0)
    assert pulse._beat().step_s == pytest.approx(6.0 - 4.0)


def test_only_a_step_is_cut_short_when_the_parent_is_gone(
    pulse: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between steps engines may be finishing what they write."""
    beats = 0

    def beat() -> Heartbeat:
        nonlocal beats
        beats += 1
        if beats == 3:
            pulse.enter("llm", 0.2)
        return Heartbeat()

    def leave(code: int) -> None:
        raise SystemExit(code)

    pulse._interval_s = 0.001
    monkeypatch.setattr(pulse, "_beat", beat)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit):
        pulse.run()
    assert beats == 3


def test_a_new_step_has_a_new_baseline(pulse: Pulse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_main, "waited_for_core_s", lambda: 7.0)
    for start_s in (10.0, 20.0):
        monkeypatch.setattr(time, "monotonic", lambda at_s=start_s: at_s)
        pulse.enter("llm", 0.2)
        monkeypatch.setattr(time, "monotonic", lambda at_s=start_s: at_s + 3.0)
        assert pulse._beat().step_s == pytest.approx(3.0)
