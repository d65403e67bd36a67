"""Events of many answers in few frames."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from heddle.core.frames import Done, Failed, Progress
from heddle.core.results import FinishReason, Generated
from heddle.engines.remote.outlet import GATHERING_FROM, Outlet

END = Generated("ab", (), FinishReason.STOP)


@dataclass
class HandLoop:
    """Runs callbacks when told to."""

    soon: list[Callable[[], object]] = field(default_factory=list)
    later: list[Callable[[], object]] = field(default_factory=list)

    def call_soon(self, work: Callable[[], object]) -> None:
        self.soon.append(work)

    def call_later(self, seconds: float, work: Callable[[], object]) -> Any:
        self.later.append(work)
        return self

    def cancel(self) -> None:
        self.later.clear()

    def turn(self) -> None:
        work, self.soon = self.soon, []
        for one in work:
            one()


def outlet(tasks: int) -> tuple[Outlet, HandLoop, list[int]]:
    loop, wakes = HandLoop(), []
    made = Outlet("llm", loop, lambda: ())  # type: ignore[arg-type]
    made.open.update(range(tasks))
    made.wake = lambda: wakes.append(1)
    return made, loop, wakes


def test_one_turn_of_the_loop_is_one_frame() -> None:
    made, loop, wakes = outlet(3)
    for task in range(3):
        made.tell_text(task, "a")
        made.tell_text(task, "b")
    made.tell(Done(1, END))
    assert made.frames() == []
    loop.turn()
    (frame,) = made.frames()
    texts = [(e.task_id, e.text) for e in frame.events if isinstance(e, Progress)]
    assert texts == [(0, "ab"), (1, "ab"), (2, "ab")]
    assert frame.events[-1] == Done(1, END)
    assert frame.load.running == 2
    assert wakes == [1]


def test_each_task_has_one_end_and_nothing_after_it() -> None:
    made, loop, _ = outlet(1)
    made.tell(Done(0, END))
    made.tell(Failed(0, "late"))
    made.tell_text(0, "late")
    made.tell_text(7, "unknown")
    loop.turn()
    (frame,) = made.frames()
    assert frame.events == (Done(0, END),)


def test_with_many_answers_later_text_waits_for_others_and_ends_do_not() -> None:
    made, loop, _ = outlet(GATHERING_FROM + 1)
    made.tell_text(0, "first")
    loop.turn()
    assert len(made.frames()) == 1, "a first text never waits"
    made.tell_text(0, "second")
    loop.turn()
    assert made.frames() == []
    (gather,) = loop.later
    gather()
    (frame,) = made.frames()
    assert frame.events == (Progress(0, text="second"),)
    made.tell_text(0, "third")
    made.tell(Done(1, END))
    loop.turn()
    (frame,) = made.frames()
    assert len(frame.events) == 2, "an end takes along what waits"
    assert loop.later == []


def test_with_few_answers_nothing_waits() -> None:
    made, loop, _ = outlet(GATHERING_FROM - 1)
    for text in ("first", "second"):
        made.tell_text(0, text)
        loop.turn()
        assert len(made.frames()) == 1
    assert loop.later == []


def test_frames_say_what_calls_took() -> None:
    made, loop, _ = outlet(2)
    made.measure(30, 0.5)
    made.measure(12, 0.25)
    made.tell(Done(0, END))
    loop.turn()
    made.tell(Done(1, END))
    loop.turn()
    first, second = made.frames()
    assert (first.features, first.seconds) == ({"tokens": 42.0}, 0.5)
    assert (second.features, second.seconds) == ({}, 0.0)


def test_a_reader_whose_loop_is_closed_is_left_alone() -> None:
    async def waker() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    closed = asyncio.run(waker())
    made, loop, _ = outlet(1)
    made.wake = lambda: closed.call_soon_threadsafe(print)
    made.tell(Done(0, END))
    loop.turn()
    assert len(made.frames()) == 1
