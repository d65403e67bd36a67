"""Requests are counted that end in time; too few of them tell nothing."""

import threading

import pytest

from heddle.app.profiling.throughput import LOADS, SATURATING, Throughput
from heddle.core.errors import Busy, EngineError, InputError
from heddle.runtime.events import Answer, RequestFailed
from heddle.runtime.handle import Handle

ANSWER = Answer("yes", (), {}, None)


class Tape:
    """A clock that a fake server and the measuring thread move by waiting."""

    def __init__(self):
        self.at_s, self.server = 0.0, None

    def now_s(self):
        return self.at_s

    def move_to(self, at_s):
        self.at_s = max(self.at_s, at_s)
        self.server.settle()


class FakeServer:
    """Answers one request after the other, each in `each_s`, at most `room` at once."""

    def __init__(self, clock, each_s, room=10**6):
        self.clock, self.each_s, self.room = clock, each_s, room
        clock.server = self
        self.free_s, self.open, self.most_open, self.fails = 0.0, [], 0, False

    def submit(self, number):
        self.settle()
        if len(self.open) >= self.room:
            raise Busy("full", wait_s=self.each_s)
        self.free_s = max(self.free_s, self.clock.at_s) + self.each_s
        handle = Timed(lambda: None, number)
        handle.server = self
        self.open.append((self.free_s, handle))
        self.most_open = max(self.most_open, len(self.open))
        return handle

    def settle(self):
        while self.open and self.open[0][0] <= self.clock.at_s:
            handle = self.open.pop(0)[1]
            failed = RequestFailed(EngineError("broken", engine="llm", request_ids=()))
            handle.push(failed if self.fails else ANSWER)


class Timed(Handle):
    """Waiting for one moves the clock to its end."""

    def wait(self, timeout_s=None):
        server = self.server
        ends = {handle: end_s for end_s, handle in server.open}
        until_s = ends.get(self, server.clock.at_s)
        if timeout_s is not None:
            until_s = min(until_s, server.clock.at_s + timeout_s)
        server.clock.move_to(until_s)
        return self.is_done


@pytest.fixture
def clock(monkeypatch):
    clock = Tape()

    class Pause(threading.Event):
        def wait(self, timeout=None):
            clock.move_to(clock.at_s + timeout)
            return False

    monkeypatch.setattr("heddle.app.profiling.throughput.threading.Event", Pause)
    return clock


def test_a_curve_rises_with_the_load_up_to_the_most(clock):
    server = FakeServer(clock, 0.1)
    curve = Throughput(server.submit, clock, 100.0, 3).curve()
    assert [point.rate_per_s for point in curve] == pytest.approx([10 * load for load in LOADS])
    assert [point.answered_per_s for point in curve] == pytest.approx([5, 9, 10], rel=0.1)
    assert server.most_open > SATURATING


def test_what_is_refused_for_want_of_room_is_not_answered(clock):
    server = FakeServer(clock, 0.1, room=2)
    curve = Throughput(server.submit, clock, 100.0, 3).curve()
    assert 5 < curve[-1].answered_per_s < 10


def test_too_few_answers_tell_nothing(clock):
    server = FakeServer(clock, 2.0)
    with pytest.raises(InputError, match="--seconds: only 5 requests ended"):
        Throughput(server.submit, clock, 10.0, 0).curve()


def test_a_failure_ends_the_measurement(clock):
    server = FakeServer(clock, 0.1)
    server.fails = True
    with pytest.raises(EngineError):
        Throughput(server.submit, clock, 10.0, 0).curve()
