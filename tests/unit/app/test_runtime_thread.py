"""The runtime's thread: work in its order, errors for the caller, and four steps to its end."""

import threading
from collections.abc import Iterator

import pytest

from heddle.app.runtime_thread import RuntimeThread
from heddle.core.errors import HeddleError, InputError, WorkflowError


@pytest.fixture
def thread() -> Iterator[RuntimeThread]:
    """A thread that runs, and is ended afterwards where the test hasn't done so."""
    before = set(threading.enumerate())
    made = RuntimeThread("a-runtime")
    made.start()
    yield made
    if made.shut():
        made.stop()
        made.dispose()
    assert set(threading.enumerate()) <= before


def test_a_call_runs_on_the_thread_and_returns_its_result(thread: RuntimeThread) -> None:
    assert thread.call(lambda: threading.current_thread().name) == "a-runtime"


def test_a_call_raises_what_its_work_raised(thread: RuntimeThread) -> None:
    def refuse() -> None:
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        thread.call(refuse)
    assert thread.call(lambda: 3) == 3


def test_a_call_by_the_thread_s_own_work_is_refused_and_the_thread_goes_on(
    thread: RuntimeThread,
) -> None:
    ended = threading.Event()
    refusals: list[str] = []

    def call_again() -> None:
        try:
            thread.call(lambda: None)
        except WorkflowError as error:
            refusals.append(str(error))
        ended.set()

    thread.post(call_again)
    assert ended.wait(30)
    assert "would wait for itself: call it in a tool (rag.tool, add_tool)" in refusals[0]
    assert thread.call(lambda: 3) == 3


def test_work_runs_in_the_order_in_which_it_is_handed_over(thread: RuntimeThread) -> None:
    done: list[int] = []
    for number in range(5):
        thread.post(lambda number=number: done.append(number))
    thread.call(lambda: done.append(5))
    assert done == [0, 1, 2, 3, 4, 5]


def test_a_shut_thread_takes_no_work_but_what_closes_something(thread: RuntimeThread) -> None:
    done: list[str] = []
    thread.post(lambda: done.append("before"))
    assert thread.shut()
    assert not thread.shut(), "it was shut already"
    thread.post(lambda: done.append("after"))
    with pytest.raises(HeddleError, match="the server is closed"):
        thread.call(lambda: done.append("called"))
    thread.call_last(lambda: done.append("closed"))
    assert done == ["before", "closed"]
    thread.stop()
    thread.dispose()


def test_what_closing_raises_is_raised(thread: RuntimeThread) -> None:
    def fail() -> None:
        raise RuntimeError("can't close")

    thread.shut()
    with pytest.raises(RuntimeError, match="can't close"):
        thread.call_last(fail)
    thread.stop()
    thread.dispose()


def test_it_stops_behind_the_work_that_was_handed_over(thread: RuntimeThread) -> None:
    done: list[int] = []
    gate = threading.Event()
    thread.post(gate.wait)
    for number in range(3):
        thread.post(lambda number=number: done.append(number))
    thread.shut()
    gate.set()
    thread.stop()
    assert done == [0, 1, 2]
    thread.dispose()
    assert thread.event_loop.is_closed()


def test_a_call_that_was_let_in_ends_though_the_thread_is_shut(thread: RuntimeThread) -> None:
    entered, gate = threading.Event(), threading.Event()
    results: list[bool] = []

    def work() -> bool:
        entered.set()
        return gate.wait(30)

    caller = threading.Thread(target=lambda: results.append(thread.call(work)))
    caller.start()
    assert entered.wait(30)
    thread.shut()
    gate.set()
    thread.stop()
    caller.join()
    assert results == [True]
    thread.dispose()


def test_one_that_was_never_started_is_only_disposed_of() -> None:
    thread = RuntimeThread()
    thread.dispose()
    assert thread.event_loop.is_closed()
