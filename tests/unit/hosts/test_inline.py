"""An engine in this process: stepped by the loop, idle when idle, safe when it raises."""

import asyncio

import numpy as np

from heddle.core.commands import Cancel, Steer
from heddle.core.frames import TERMINAL, Cancelled, Done, Event, Failed, Frame
from heddle.core.payloads import DecodePayload, Sampling
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.hosts.inline import InlineHost
from tests.helpers.echo_engine import (
    FAIL,
    RAISE,
    STREAM,
    EchoEngine,
    EchoSettings,
    admit,
    texts_to_vectors,
)


class FixedClock:
    def now_s(self) -> float:
        return 3.0


def make_host(engine: EchoEngine | None = None) -> InlineHost:
    return InlineHost(engine or EchoEngine("echo", 1, EchoSettings()), 8, FixedClock())


def drain(host: InlineHost) -> list[Frame]:
    while host.step_once(0.0):
        pass
    return list(host.frames())


def events_of(frames: list[Frame]) -> list[Event]:
    return [event for frame in frames for event in frame.events]


def test_without_a_loop_it_is_stepped_by_hand() -> None:
    host = make_host()
    host.send(admit(1, "ab", "cde"))
    assert host.frames() == []
    (event,) = events_of(drain(host))
    assert isinstance(event, Done)
    assert isinstance(event.result, Vectors)
    np.testing.assert_array_equal(event.result.values, texts_to_vectors(["ab", "cde"], 4))
    assert host.step_once(0.0) is False


def test_the_port_says_what_it_is() -> None:
    host = make_host()
    assert (host.name, host.epoch, host.credits.free) == ("echo", 1, 8)
    assert PrimitiveKind.EMBEDDING in host.kinds


async def _collect(host: InlineHost, until: int) -> list[Frame]:
    loop = asyncio.get_running_loop()
    frames: list[Frame] = []
    done = loop.create_future()

    def on_frames() -> None:
        frames.extend(host.frames())
        endings = sum(isinstance(event, TERMINAL) for event in events_of(frames))
        if endings >= until and not done.done():
            done.set_result(None)

    host.subscribe(on_frames)
    await asyncio.wait_for(done, 10)
    return frames


def test_on_a_loop_it_steps_by_itself_one_step_a_turn() -> None:
    async def scenario() -> list[Frame]:
        host = make_host()
        host.send(admit(1, STREAM + "3"))
        host.send(admit(2, "b"))
        frames = await _collect(host, until=2)
        assert not asyncio.get_running_loop()._ready  # type: ignore[attr-defined] # idle
        return frames

    frames = asyncio.run(scenario())
    assert [frame.number for frame in frames] == list(range(1, 6))
    assert all(len(frame.events) == 1 for frame in frames)


def test_commands_sent_between_steps_are_seen() -> None:
    async def scenario() -> list[Event]:
        host = make_host()
        host.send(admit(1, STREAM + "1000000"))
        collected = asyncio.ensure_future(_collect(host, until=1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        host.send(Cancel(1))
        return events_of(await collected)

    assert asyncio.run(scenario())[-1] == Cancelled(1)


def test_a_step_that_raises_fails_every_live_task_and_the_engine_goes_on() -> None:
    host = make_host()
    for task_id, text in ((1, RAISE), (2, "b"), (3, STREAM + "2")):
        host.send(admit(task_id, text))
    assert host.step_once(0.0)
    (frame,) = host.frames()
    assert [event.task_id for event in frame.events] == [1, 2, 3]
    assert all(
        isinstance(event, Failed) and "RuntimeError: the worker broke" in event.message
        for event in frame.events
    )
    assert events_of(drain(host)) == []  # what the engine still says of them is kept back
    host.send(admit(4, "d"))
    (event,) = events_of(drain(host))
    assert isinstance(event, Done)


def test_an_engine_that_only_raises_does_not_spin() -> None:
    class Broken(EchoEngine):
        has_work = True

        def step(self, now_s: float, budget_s: float) -> Frame:
            raise RuntimeError("always")

    host = make_host(Broken("echo", 1, EchoSettings()))
    host.send(admit(1, "a"))
    assert [event.task_id for event in events_of(drain(host))] == [1]
    host.send(admit(2, "a"))
    assert [event.task_id for event in events_of(drain(host))] == [2]


def test_a_task_that_the_engine_refuses_to_take_fails_alone() -> None:
    host = make_host()
    host.send(admit(1, "a"))
    host.send(admit(2, payload=DecodePayload(9, Sampling())))
    first, second = events_of(drain(host))
    assert isinstance(first, Failed)
    assert first.task_id == 2
    assert "no DecodePayload here" in first.message
    assert isinstance(second, Done)


def test_an_engine_s_own_failure_passes_through() -> None:
    host = make_host()
    host.send(admit(1, FAIL))
    assert events_of(drain(host)) == [Failed(1, "no good", is_input=True)]


def test_steer_sets_the_budget_of_a_step() -> None:
    host = make_host()
    host.send(admit(1, "a"))
    host.send(Steer(budget_s=0.25))
    (frame,) = drain(host)
    assert frame.features["budget_s"] == 0.25


def test_close_closes_an_engine_that_holds_something_once() -> None:
    class Holding(EchoEngine):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    engine = Holding("echo", 1, EchoSettings())
    host = make_host(engine)
    host.close()
    host.close()
    assert engine.closed == 1


def test_close_fails_what_is_live_and_what_comes_later() -> None:
    async def scenario() -> list[Event]:
        host = make_host()
        host.send(admit(1, "a"))
        host.close()
        host.close()
        host.send(admit(2, "b"))
        host.send(Cancel(2))
        await asyncio.sleep(0)
        return events_of(list(host.frames()))

    events = asyncio.run(scenario())
    assert [event.task_id for event in events] == [1, 2]
    assert all(isinstance(event, Failed) and "was closed" in event.message for event in events)
