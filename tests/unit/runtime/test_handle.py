"""The caller's end: await, iterate, cancel; from this loop, another one, or a thread."""

import asyncio
import threading

import pytest

from heddle.core.errors import Cancelled, EngineError
from heddle.runtime.events import Answer, NodeFinished, NodeStarted, RequestFailed, TokenDelta
from heddle.runtime.handle import Handle
from heddle.runtime.loop import RuntimeLoop

ANSWER = Answer("yes", (), {}, None)


@pytest.fixture
def cancels():
    return []


@pytest.fixture
def handle(cancels):
    return Handle(lambda: cancels.append(1))


class Served:
    """A bench driven by a RuntimeLoop on the running loop."""

    def __init__(self, bench):
        self.bench = bench
        self.loop = RuntimeLoop(bench.runtime, bench.clock, asyncio.get_running_loop())
        self.loop.start()

    def submit(self, workflow):
        def cancel():
            self.bench.runtime.cancel(ids[0], self.bench.clock.time_s)
            self.loop.wake()

        ids = []
        handle = Handle(cancel)
        ids.append(self.bench.runtime.submit(workflow, {"query": "why"}, handle.push, now_s=0.0))
        self.loop.wake()
        return handle


class TestDeltas:
    def test_those_nobody_took_are_one(self, handle):
        for text in ("a", "b", "c"):
            handle.push(TokenDelta("n", text))
        handle.push(ANSWER)
        assert list(handle) == [TokenDelta("n", "abc"), ANSWER]

    def test_a_reader_that_keeps_up_gets_each(self, handle):
        events = iter(handle)
        for text in ("a", "b"):
            handle.push(TokenDelta("n", text))
            assert next(events) == TokenDelta("n", text)

    def test_of_two_nodes_or_around_another_event_stay_apart(self, handle):
        told = [
            TokenDelta("n", "a"),
            TokenDelta("m", "b"),
            NodeFinished("m", 0),
            TokenDelta("m", "c"),
            ANSWER,
        ]
        for event in told:
            handle.push(event)
        assert list(handle) == told

    def test_a_slow_reader_costs_one_pending_delta(self, handle):
        for _ in range(10_000):
            handle.push(TokenDelta("n", "x"))
        handle.push(ANSWER)
        assert list(handle) == [TokenDelta("n", "x" * 10_000), ANSWER]


class TestAwaitsEndAlone:
    def test_while_somebody_waits_for_the_answer(self, handle):
        async def wait():
            assert not handle.awaits_end_alone()
            waiting = asyncio.ensure_future(handle)
            await _turn()
            assert handle.awaits_end_alone()
            handle.push(ANSWER)
            assert await waiting is ANSWER

        asyncio.run(wait())

    def test_not_where_events_are_read_as_well(self, handle):
        async def wait():
            waiting = asyncio.ensure_future(handle)
            reading = asyncio.ensure_future(anext(aiter(handle)))
            await _turn()
            assert not handle.awaits_end_alone()
            handle.push(ANSWER)
            assert (await waiting, await reading) == (ANSWER, ANSWER)

        asyncio.run(wait())


class TestEnd:
    def test_the_result_is_the_answer(self, handle):
        assert not handle.is_done
        handle.push(ANSWER)
        assert handle.is_done
        assert handle.result() is ANSWER
        assert handle.result() is ANSWER

    def test_a_failure_is_raised_each_time(self, handle):
        handle.push(RequestFailed(EngineError("broke", engine="llm", request_ids=(1,))))
        for _ in range(2):
            with pytest.raises(EngineError, match="broke"):
                handle.result()

    def test_a_second_end_is_a_bug(self, handle):
        handle.push(ANSWER)
        with pytest.raises(AssertionError, match="ended twice"):
            handle.push(RequestFailed(Cancelled("late")))

    def test_a_wait_that_takes_too_long_leaves_the_request_alone(self, handle, cancels):
        with pytest.raises(TimeoutError):
            handle.result(timeout_s=0.0)
        assert cancels == []


class TestOnTheLoop:
    def test_await_gives_the_answer(self, bench, draft):
        async def main():
            return await Served(bench).submit(draft)

        assert asyncio.run(main()).text == "hello"
        bench.assert_idle()

    def test_async_for_gives_the_events_and_ends(self, bench, hyde):
        async def main():
            return [event async for event in Served(bench).submit(hyde)]

        events = asyncio.run(main())
        assert isinstance(events[0], NodeStarted)
        assert isinstance(events[-1], Answer)

    def test_cancel_waits_for_the_end(self, bench, draft):
        async def main():
            bench.llm.holds = lambda task: True
            handle = Served(bench).submit(draft)
            await anext(aiter(handle))
            await handle.cancel()
            assert handle.is_done
            with pytest.raises(Cancelled):
                await handle
            while bench.runtime.tasks.open:
                await asyncio.wait_for(_turn(), 5)

        asyncio.run(main())
        bench.assert_idle()

    @pytest.mark.parametrize("how", ["await", "async for"])
    def test_cancelling_the_awaiting_task_cancels_the_request(self, bench, draft, how):
        async def wait(handle):
            if how == "await":
                await handle
            else:
                async for _ in handle:
                    pass

        async def main():
            bench.llm.holds = lambda task: True
            handle = Served(bench).submit(draft)
            waiting = asyncio.ensure_future(wait(handle))
            for _ in range(5):
                await _turn()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(Cancelled):
                await handle
            while bench.runtime.tasks.open:
                await asyncio.wait_for(_turn(), 5)

        asyncio.run(main())
        bench.assert_idle()

    def test_several_may_await_one_handle(self, bench, draft):
        async def main():
            handle = Served(bench).submit(draft)
            return await asyncio.gather(handle, handle, handle)

        first, second, third = asyncio.run(main())
        assert first is second is third


class TestFromElsewhere:
    def test_a_thread_blocks_until_the_answer(self, handle):
        reader = _Thread(handle.result)
        handle.push(TokenDelta("n", "a"))
        handle.push(ANSWER)
        assert reader.join() is ANSWER

    def test_a_thread_reads_events_with_a_plain_for(self, handle):
        reader = _Thread(lambda: list(handle))
        handle.push(NodeStarted("n", 0))
        handle.push(TokenDelta("n", "a"))
        handle.push(ANSWER)
        assert reader.join() == [NodeStarted("n", 0), TokenDelta("n", "a"), ANSWER]

    def test_another_loop_awaits_it(self, handle):
        async def wait():
            return await handle

        reader = _Thread(lambda: asyncio.run(wait()))
        handle.push(ANSWER)
        assert reader.join() is ANSWER

    def test_another_loop_reads_its_events(self, handle):
        async def read():
            return [event async for event in handle]

        reader = _Thread(lambda: asyncio.run(read()))
        for turn in range(100):
            handle.push(NodeStarted("n", turn))
        handle.push(ANSWER)
        assert len(reader.join()) == 101

    def test_a_loop_that_is_gone_is_not_woken(self, handle):
        async def give_up():
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(anext(aiter(handle))), 0)

        asyncio.run(give_up())
        handle.push(ANSWER)
        assert handle.result() is ANSWER


class _Thread:
    def __init__(self, work):
        self._result = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work):
        self._result = work()

    def join(self):
        self._thread.join(10)
        assert not self._thread.is_alive(), "the reader hangs"
        return self._result


async def _turn():
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, None)
    await future
