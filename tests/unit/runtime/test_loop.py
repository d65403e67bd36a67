"""The asyncio driver: one cycle for many wakes, timers for deadlines, a clean close."""

import asyncio

import pytest

from heddle.core.errors import Cancelled, DeadlineExceeded
from heddle.runtime.loop import RuntimeLoop
from heddle.runtime.runtime import Runtime
from tests.helpers.fake_ports import Call


class LoopClock:
    """The running loop's own time, so that timers and deadlines agree."""

    def now_s(self):
        return asyncio.get_running_loop().time()


def submit(runtime_loop, workflow, **options):
    call = Call()
    call.done = asyncio.get_running_loop().create_future()

    def push(event):
        call.push(event)
        if call.ends and not call.done.done():
            call.done.set_result(None)

    now_s = runtime_loop.clock.now_s()
    call.id = runtime_loop.runtime.submit(workflow, {"query": "q"}, push, now_s=now_s, **options)
    runtime_loop.wake()
    return call


def drive(bench, scenario):
    async def main():
        runtime_loop = RuntimeLoop(bench.runtime, LoopClock(), asyncio.get_running_loop())
        runtime_loop.start()
        await scenario(runtime_loop)

    asyncio.run(main())


def test_many_wakes_are_one_cycle(bench, monkeypatch):
    cycles = []

    def cycle(runtime, now_s):
        cycles.append(now_s)
        return float("inf")

    async def scenario(runtime_loop):
        for _ in range(10):
            runtime_loop.wake()
        later = runtime_loop.loop.create_future()
        runtime_loop.loop.call_later(0.001, later.set_result, None)
        await later

    monkeypatch.setattr(Runtime, "cycle", cycle)
    drive(bench, scenario)
    assert len(cycles) == 1


def test_a_deadline_fires_without_any_frame(bench, search):
    async def scenario(runtime_loop):
        bench.vector.holds = lambda task: True
        slow = submit(runtime_loop, search, deadline_s=60.0)
        hurried = submit(runtime_loop, search, deadline_s=0.02)
        await asyncio.wait_for(hurried.done, 10)
        assert isinstance(hurried.error, DeadlineExceeded)
        assert not slow.ends
        bench.vector.answer_all()
        await asyncio.wait_for(slow.done, 10)
        assert slow.answer

    drive(bench, scenario)
    bench.assert_idle()


def test_close_cancels_what_is_in_flight_and_ignores_later_wakes(bench, search):
    async def scenario(runtime_loop):
        bench.vector.holds = lambda task: True
        call = submit(runtime_loop, search)
        runtime_loop.close()
        runtime_loop.wake()
        await call.done
        assert isinstance(call.error, Cancelled)

    drive(bench, scenario)
    assert not bench.runtime.requests.open


def test_a_thread_may_wake_it(bench, search):
    async def scenario(runtime_loop):
        bench.vector.holds = lambda task: True
        call = submit(runtime_loop, search)
        while not bench.vector.open:
            future = runtime_loop.loop.create_future()
            runtime_loop.loop.call_soon(future.set_result, None)
            await future
        await asyncio.to_thread(bench.vector.answer_all)
        await asyncio.wait_for(call.done, 10)
        assert call.answer

    drive(bench, scenario)
    bench.assert_idle()


@pytest.mark.parametrize("count", [50])
def test_many_requests_at_once(bench, hyde, count):
    async def scenario(runtime_loop):
        calls = [submit(runtime_loop, hyde) for _ in range(count)]
        await asyncio.wait_for(asyncio.gather(*(call.done for call in calls)), 10)
        assert all(call.answer.text == "hello" for call in calls)

    drive(bench, scenario)
    bench.assert_idle()


def test_a_broken_cycle_ends_every_request_with_our_error() -> None:
    from heddle.core.errors import InternalError
    from heddle.runtime.loop import RuntimeLoop

    class Broken:
        ports: tuple[object, ...] = ()
        threads = None
        failed: list[Exception]

        def __init__(self) -> None:
            self.failed = []

        def cycle(self, now_s: float) -> float:
            raise KeyError("gone")

        def fail_all(self, error: Exception, now_s: float) -> None:
            self.failed.append(error)

    class Still:
        def now_s(self) -> float:
            return 0.0

    async def run() -> Broken:
        runtime = Broken()
        driver = RuntimeLoop(runtime, Still(), asyncio.get_running_loop())  # type: ignore[arg-type]
        driver.start()
        driver.wake()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return runtime

    (error,) = asyncio.run(run()).failed
    assert isinstance(error, InternalError)
    assert "gone" in str(error)
