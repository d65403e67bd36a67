"""Users' functions in threads: their results, their errors, and calls that are given up."""

import threading
from collections.abc import Callable

import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.frames import Cancelled, Done, Event, Failed
from heddle.core.payloads import ToolPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import ToolResult
from heddle.core.tasks import Identity, Task
from heddle.hosts import tool_threads
from heddle.hosts.tool_threads import ToolThreads

PATIENCE_S = 30.0


class SetClock:
    time_s = 3.0

    def now_s(self) -> float:
        return self.time_s


class Tools:
    """One thread of tools, and what came back."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.port = ToolThreads("tools", 1, self.clock)
        self.arrived = threading.Event()
        self._events: list[Event] = []
        self.port.subscribe(self.arrived.set)

    def call(
        self, task_id: int, function: Callable[..., object], *arguments: object, **how: float
    ) -> None:
        payload = ToolPayload(function, arguments, **how)
        self.port.send(Admit(Task(task_id, PrimitiveKind.TOOL, Identity(1, "node"), payload)))

    def next_event(self) -> Event:
        while not self._events:  # it is woken, too, when a call begins
            assert self.arrived.wait(PATIENCE_S)
            self.arrived.clear()
            self._events += [event for frame in self.port.frames() for event in frame.events]
        return self._events.pop(0)


@pytest.fixture
def tools():
    tools = Tools()
    yield tools
    tools.port.close()


def test_a_call_is_answered_with_what_it_returns(tools: Tools) -> None:
    tools.call(1, str.upper, "a")
    assert tools.next_event() == Done(1, ToolResult("A"))


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_whatever_it_raises_is_that_call_s_failure(
    tools: Tools, error: type[BaseException]
) -> None:
    def broken() -> None:
        raise error("no good")

    tools.call(1, broken)
    event = tools.next_event()
    assert isinstance(event, Failed)
    assert event.message.startswith(f"{error.__name__}: ")
    raised_in = broken.__code__.co_firstlineno + 1
    assert event.message.endswith(f", at line {raised_in} of {__file__}")
    tools.call(2, str.upper, "b")
    assert tools.next_event() == Done(2, ToolResult("B"))


def test_a_call_that_is_cancelled_before_it_begins_never_runs(tools: Tools) -> None:
    begun, go_on = threading.Event(), threading.Event()
    ran: list[int] = []

    def slow() -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    tools.call(1, slow)
    assert begun.wait(PATIENCE_S)
    tools.call(2, ran.append, 2)
    tools.port.send(Cancel(2))
    assert tools.next_event() == Cancelled(2)
    tools.port.send(Cancel(1))
    assert tools.next_event() == Cancelled(1)
    go_on.set()
    tools.call(3, str.upper, "c")
    assert tools.next_event() == Done(3, ToolResult("C"))  # and nothing more of the first
    assert not ran


class Held:
    """A function that a test lets go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, *arguments: object) -> object:
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S)
        return arguments


def test_a_call_that_hangs_ends_alone_and_frees_its_place(tools: Tools) -> None:
    held = Held()
    tools.call(1, held, timeout_s=2.0)
    assert held.begun.wait(PATIENCE_S)
    tools.call(2, str.upper, "b", timeout_s=9.0)
    assert tools.port.due_s == 5.0
    assert tools.port.frames() == ()
    tools.clock.time_s = 5.0
    ((late,),) = [frame.events for frame in tools.port.frames()]
    assert late == Failed(1, late.message, is_final=True)
    assert late.message == "it gave no result within its 2 s: mend it, or raise its timeout_s"
    assert tools.next_event() == Done(2, ToolResult("B"))  # by another thread
    assert tools.port.due_s == float("inf")
    held.go_on.set()
    tools.call(3, str.upper, "c")
    assert tools.next_event() == Done(3, ToolResult("C"))  # and nothing more of the first


def test_the_wait_for_a_thread_is_no_part_of_a_call_s_time(tools: Tools) -> None:
    held = Held()
    tools.call(1, held)
    assert held.begun.wait(PATIENCE_S)
    tools.call(2, str.upper, "b", timeout_s=1.0)
    tools.clock.time_s = 9.0
    assert tools.port.frames() == ()
    held.go_on.set()
    assert tools.next_event() == Done(1, ToolResult(()))
    assert tools.next_event() == Done(2, ToolResult("B"))


def test_a_thread_that_comes_back_late_serves_what_waits(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_threads, "HUNG_MAX", 0)
    held = Held()
    tools.call(1, held, timeout_s=1.0)
    assert held.begun.wait(PATIENCE_S)
    tools.call(2, str.upper, "b")
    tools.clock.time_s = 9.0
    ((late,),) = [frame.events for frame in tools.port.frames()]
    assert late.task_id == 1
    held.go_on.set()
    assert tools.next_event() == Done(2, ToolResult("B"))


def test_calls_that_wait_for_one_function_go_together(tools: Tools) -> None:
    batches: list[list[tuple[object, ...]]] = []

    def lengths(calls: list[tuple[str]]) -> list[object]:
        batches.append(list(calls))
        return [len(text) if text else ValueError("nothing") for (text,) in calls]

    held = Held()
    tools.call(1, held)
    assert held.begun.wait(PATIENCE_S)
    for task_id, text in enumerate(("a", "", "ccc", "dd"), start=2):
        tools.call(task_id, lengths, text, batch_max=3)
    tools.port.send(Cancel(4))
    held.go_on.set()
    ends = {}
    while len(ends) < 5:
        assert tools.arrived.wait(PATIENCE_S)
        tools.arrived.clear()
        ends |= {e.task_id: e for frame in tools.port.frames() for e in frame.events}
    assert batches == [[("a",), ("",), ("dd",)]]
    assert [ends[2], ends[5]] == [Done(2, ToolResult(1)), Done(5, ToolResult(2))]
    assert ends[3] == Failed(3, "ValueError: nothing")
    assert ends[4] == Cancelled(4)


def test_a_batch_that_raises_is_made_again_call_by_call(tools: Tools) -> None:
    def inverse(calls: list[tuple[int]]) -> list[float]:
        return [1 / number for (number,) in calls]

    held = Held()
    tools.call(1, held)
    assert held.begun.wait(PATIENCE_S)
    tools.call(2, inverse, 0, batch_max=8)
    tools.call(3, inverse, 4, batch_max=8)
    held.go_on.set()
    ends = {}
    while len(ends) < 3:
        assert tools.arrived.wait(PATIENCE_S)
        tools.arrived.clear()
        ends |= {e.task_id: e for frame in tools.port.frames() for e in frame.events}
    assert ends[3] == Done(3, ToolResult(0.25))
    assert ends[2].message.startswith("ZeroDivisionError")


def test_a_batch_answers_each_of_its_calls(tools: Tools) -> None:
    tools.call(1, lambda calls: [], "a", batch_max=2)
    event = tools.next_event()
    assert isinstance(event, Failed)
    assert event.message == "ValueError: it must return a list of 1 results, one for each call"
