"""An engine on a thread: tasks go in, frames come out, and an error fails its tasks alone."""

import threading

import pytest

from heddle.core.commands import Cancel
from heddle.core.frames import Cancelled, Done, Failed
from heddle.hosts.engine_thread import EngineThread
from heddle.runtime.clock import SystemClock
from tests.helpers.echo_engine import FAIL, RAISE, EchoEngine, EchoSettings, admit

WAIT_S = 10.0


class Hosted:
    """A thread's port, and the events that have come from it."""

    def __init__(self, engine):
        self.port = EngineThread(engine, 8, SystemClock())
        self._arrived = threading.Semaphore(0)
        self.port.subscribe(self._arrived.release)
        self.events = []

    def next_events(self):
        """Wait until events arrive, and return them."""
        while True:
            assert self._arrived.acquire(timeout=WAIT_S), "no frame arrived"
            found = [event for frame in self.port.frames() for event in frame.events]
            self.events += found
            if found:
                return found


@pytest.fixture
def hosted():
    one = Hosted(EchoEngine("echo", 1, EchoSettings()))
    yield one
    one.port.close()


def test_it_says_what_its_engine_is(hosted):
    port = hosted.port
    assert (port.name, port.epoch, port.credits.total) == ("echo", 1, 8)
    assert port.kinds == EchoEngine("echo", 1, EchoSettings()).kinds


def test_tasks_are_answered_on_another_thread(hosted):
    hosted.port.send(admit(1, "one"))
    (done,) = hosted.next_events()
    assert isinstance(done, Done)
    assert done.result.values[0, 0] == len("one")
    hosted.port.send(admit(2, "three"))
    assert hosted.next_events()[0].task_id == 2


def test_a_step_that_raises_fails_what_is_under_way_and_the_engine_goes_on(hosted):
    hosted.port.send(admit(1, RAISE))
    (failed,) = hosted.next_events()
    assert isinstance(failed, Failed)
    assert "RuntimeError: the worker broke" in failed.message
    hosted.port.send(admit(2, FAIL))
    assert hosted.next_events()[0].is_input
    hosted.port.send(admit(3, "fine"))
    assert isinstance(hosted.next_events()[0], Done)


class Stubborn(EchoEngine):
    """It never wants a step: its tasks end only when they are cancelled, or it is closed."""

    has_work = False


class Undecided(EchoEngine):
    """It can't say whether it has work."""

    @property
    def has_work(self):
        if self._waiting:
            raise LookupError("lost count")
        return False


def test_what_is_live_fails_when_it_is_closed(tmp_path):
    closes_into = tmp_path / "closed"
    one = Hosted(Stubborn("echo", 1, EchoSettings(closes_into=str(closes_into))))
    one.port.send(admit(1, "waits"))
    one.port.close()
    one.port.close()
    assert [e.message for e in one.next_events()] == ["engine echo was closed"]
    assert closes_into.read_text() == "echo"
    one.port.send(admit(2, "late"))
    assert one.next_events()[0].message == "engine echo was closed"


def test_an_engine_that_can_t_say_whether_it_has_work_fails_its_tasks(caplog):
    one = Hosted(Undecided("echo", 1, EchoSettings()))
    one.port.send(admit(1, "waits"))
    assert "has_work raised LookupError" in one.next_events()[0].message
    one.port.close()


def test_an_engine_that_ends_its_thread_takes_no_more_tasks(caplog):
    class Leaving(EchoEngine):
        def step(self, now_s, budget_s):
            raise SystemExit(3)

    one = Hosted(Leaving("echo", 1, EchoSettings()))
    for task_id in (1, 2):
        one.port.send(admit(task_id, "x"))
        assert one.next_events()[0].message == "engine echo was closed"
    one.port.close()


def test_a_cancelled_task_ends_as_cancelled():
    never = threading.Event()

    class Slow(EchoEngine):
        def step(self, now_s, budget_s):
            never.wait(WAIT_S)
            return super().step(now_s, budget_s)

    one = Hosted(Slow("echo", 1, EchoSettings()))
    for task_id in (1, 2):
        one.port.send(admit(task_id, "x"))
    one.port.send(Cancel(2))
    never.set()
    while len(one.events) < 2:
        one.next_events()
    assert {type(event) for event in one.events} <= {Done, Cancelled}
    assert {event.task_id for event in one.events} == {1, 2}
    one.port.close()
