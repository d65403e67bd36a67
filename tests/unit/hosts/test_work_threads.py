"""Work beside the runtime's thread: its results, its wake-ups, and work that is given up."""

import threading

import pytest

from heddle.hosts.work_threads import WorkThreads

PATIENCE_S = 30.0


@pytest.fixture
def threads():
    threads = WorkThreads("work", 1)
    yield threads
    threads.close()


def test_work_runs_elsewhere_and_its_end_wakes(threads: WorkThreads) -> None:
    woken = threading.Event()
    threads.subscribe(woken.set)
    done = threads.submit(threading.get_ident)
    assert done.result(PATIENCE_S) != threading.get_ident()
    assert woken.wait(PATIENCE_S)


def test_what_it_raises_is_its_result_and_wakes_too(threads: WorkThreads) -> None:
    woken = threading.Event()
    threads.subscribe(woken.set)
    failed = threads.submit(lambda: 1 // 0)
    assert isinstance(failed.exception(PATIENCE_S), ZeroDivisionError)
    assert woken.wait(PATIENCE_S)


def test_what_waits_at_the_end_never_runs() -> None:
    threads = WorkThreads("work", 1)
    begun, go_on = threading.Event(), threading.Event()
    ran: list[int] = []

    def slow() -> bool:
        begun.set()
        return go_on.wait(PATIENCE_S)

    first = threads.submit(slow)
    second = threads.submit(lambda: ran.append(2))
    assert begun.wait(PATIENCE_S)
    closing = threading.Thread(target=threads.close)
    closing.start()
    while not second.cancelled():
        threading.Event().wait(0.001)
    go_on.set()
    closing.join()
    assert first.result()
    assert ran == []
