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
from heddle.hosts.tool_threads import ToolThreads

PATIENCE_S = 30.0


class FixedClock:
    def now_s(self) -> float:
        return 3.0


class Tools:
    """One thread of tools, and what came back."""

    def __init__(self) -> None:
        self.port = ToolThreads("tools", 1, FixedClock())
        self._arrived = threading.Event()
        self.port.subscribe(self._arrived.set)

    def call(self, task_id: int, function: Callable[..., object], *arguments: object) -> None:
        payload = ToolPayload(function, arguments)
        self.port.send(Admit(Task(task_id, PrimitiveKind.TOOL, Identity(1, "node"), payload)))

    def next_event(self) -> Event:
        assert self._arrived.wait(PATIENCE_S)
        self._arrived.clear()
        ((event,),) = [frame.events for frame in self.port.frames()]
        return event


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
