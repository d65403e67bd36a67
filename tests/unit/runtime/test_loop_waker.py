"""Waking what waits on another thread's event loop."""

import asyncio
import gc
import threading
from weakref import ref

import pytest

from heddle.runtime.loop_waker import waker_of
from heddle.runtime.turn_end import turn


def in_a_thread(work) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_many_futures_are_completed_with_one_write_to_the_loop() -> None:
    async def run() -> int:
        loop, wakes = asyncio.get_running_loop(), 0
        waker = waker_of(loop)
        assert waker_of(loop) is waker
        call_soon = loop.call_soon_threadsafe

        def counted(*work, **how):
            nonlocal wakes
            wakes += 1
            return call_soon(*work, **how)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        for _ in range(2):
            waiting = [loop.create_future() for _ in range(32)]
            in_a_thread(lambda waiting=waiting: [waker.wake(one) for one in waiting])
            assert not any(one.done() for one in waiting)
            await asyncio.gather(*waiting)
        return wakes

    assert asyncio.run(run()) == 2


def test_wakes_may_be_shared_until_all_futures_are_completed() -> None:
    async def run() -> list[str]:
        loop, seen = asyncio.get_running_loop(), []
        waker, waiting = waker_of(loop), [loop.create_future() for _ in range(3)]
        call_soon = loop.call_soon_threadsafe

        def noted(*work, **how):
            seen.append("woken")
            return call_soon(*work, **how)

        loop.call_soon_threadsafe = noted  # type: ignore[method-assign]

        def step() -> None:
            with turn():
                for one in waiting:
                    waker.wake(one)
                seen.append("all are")
                raise ZeroDivisionError

        def failing() -> None:
            with pytest.raises(ZeroDivisionError):
                step()

        in_a_thread(failing)
        await asyncio.gather(*waiting)
        return seen

    assert asyncio.run(run()) == ["all are", "woken"]


def test_on_the_loops_own_thread_a_future_is_completed_at_once() -> None:
    async def run() -> None:
        waiting = asyncio.get_running_loop().create_future()
        waker_of(asyncio.get_running_loop()).wake(waiting)
        assert waiting.done()
        waker_of(asyncio.get_running_loop()).wake(waiting)  # a second time is one too many

    asyncio.run(run())


def test_a_cancelled_future_and_a_closed_loop_are_left_alone() -> None:
    async def run():
        loop = asyncio.get_running_loop()
        cancelled = loop.create_future()
        cancelled.cancel()
        in_a_thread(lambda: waker_of(loop).wake(cancelled))
        await asyncio.sleep(0)
        return waker_of(loop), loop.create_future()

    waker, late = asyncio.run(run())
    waker.wake(late)
    assert not late.done()


def test_a_loop_that_ended_is_kept_by_nothing() -> None:
    async def run():
        loop = asyncio.get_running_loop()
        return ref(loop), waker_of(loop), loop.create_future()

    ended, waker, late = asyncio.run(run())
    waker.wake(late)
    del late
    gc.collect()
    assert ended() is None
    waker.rouse()  # does nothing


def test_a_loop_that_was_closed_before_its_turn_is_dropped_by_the_next_one() -> None:
    loop = asyncio.new_event_loop()
    waker_of(loop).wake(loop.create_future())
    loop.close()
    ended = ref(loop)
    del loop

    async def another() -> None:
        waker_of(asyncio.get_running_loop())

    asyncio.run(another())
    gc.collect()
    assert ended() is None


def test_a_loop_that_closes_while_it_is_woken_holds_up_no_other() -> None:
    closing, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    call_soon = closing.call_soon_threadsafe

    def late(*work, **how):
        closing.close()  # as its own thread may do between any two lines of another
        return call_soon(*work, **how)

    closing.call_soon_threadsafe = late  # type: ignore[method-assign]
    unheard, heard = closing.create_future(), other.create_future()
    waker = waker_of(closing)
    with turn():
        waker.wake(unheard)
        waker_of(other).wake(heard)
    other.run_until_complete(heard)
    other.close()
    waker.wake(unheard)  # does nothing
    assert not unheard.done()
