"""How a lane distinguishes a hung step from one that waits for a core."""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

import pytest

from heddle.core.errors import ConfigError
from heddle.core.frames import Failed
from heddle.core.primitives import PrimitiveKind
from heddle.hosts import lane_main
from heddle.hosts.guarded_engine import GuardedEngine
from heddle.hosts.lane_main import (
    DeviceLost,
    Pulse,
    call_factory,
    close_all,
    serve,
    waited_for_core_s,
)
from heddle.hosts.lane_spec import EngineSpec
from heddle.hosts.messages import FromEngine, ToEngine
from heddle.hosts.wire.channel import Channel
from heddle.hosts.wire.framing import ChannelClosed
from heddle.runtime.supervision import Heartbeat
from tests.helpers.echo_engine import RAISE, EchoEngine, EchoSettings, admit


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def pulse(ends: tuple[socket.socket, socket.socket]) -> Pulse:
    return Pulse(Channel(ends[0]), 0.001)


class Over(Exception):
    """The test has seen all the heartbeats that it wants."""


def beats_of(
    pulse: Pulse, monkeypatch: pytest.MonkeyPatch, between: Sequence[Callable[[], None]]
) -> list[Heartbeat]:
    """Have heartbeats sent with these acts between them, and return them."""
    acts, beats = iter(between), list[Heartbeat]()

    def beat(*step: object) -> Heartbeat:
        beats.append(Heartbeat(*step))
        act = next(acts, None)
        if act is None:
            raise Over
        act()
        return beats[-1]

    with monkeypatch.context() as patch:
        patch.setattr(lane_main, "Heartbeat", beat)
        with pytest.raises(Over):
            pulse.run()
    return beats


def test_waiting_time_never_falls() -> None:
    before_s = waited_for_core_s()
    assert 0 <= before_s <= waited_for_core_s()


def test_time_without_a_core_does_not_count(pulse: Pulse, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = iter([5.0, 9.0])
    monkeypatch.setattr(lane_main, "waited_for_core_s", lambda: next(waits))
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    pulse.enter("llm", 0.2)
    # The first beat of a step takes its baseline.
    later = [lambda: monkeypatch.setattr(time, "monotonic", lambda: 106.0)]
    assert beats_of(pulse, monkeypatch, later)[-1].step_s == pytest.approx(6.0 - 4.0)


def test_only_a_step_is_cut_short_when_the_parent_is_gone(
    pulse: Pulse,
    ends: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between steps engines may be finishing what they write."""
    ends[1].close()
    beats = 0

    def beat() -> Heartbeat:
        nonlocal beats
        beats += 1
        if beats == 3:
            pulse.enter("llm", 0.2)
        return Heartbeat()

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(lane_main, "Heartbeat", beat)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit):
        pulse.run()
    assert beats == 3


class Told(ChannelClosed):
    """The lane has told how a task has failed."""


class FirstFailure(Channel):
    """Closes once a task's failure is sent."""

    def send(self, message: object) -> None:
        assert isinstance(message, FromEngine)
        if any(isinstance(event, Failed) for frame in message.frames for event in frame.events):
            raise Told
        super().send(message)


@pytest.mark.parametrize(
    ("problem", "end"), [("", Told), ("CUDA error: device-side assert triggered", DeviceLost)]
)
def test_a_lane_ends_that_has_lost_its_device_and_not_one_that_has_failed_a_task(
    ends: tuple[socket.socket, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
    problem: str,
    end: type[Exception],
) -> None:
    def synchronize() -> None:
        if problem:
            raise RuntimeError(problem)

    cuda = SimpleNamespace(is_initialized=lambda: True, synchronize=synchronize)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    lane, parent = FirstFailure(ends[0]), Channel(ends[1])
    for number, text in enumerate(("fine", RAISE)):
        parent.send(ToEngine(0, admit(number, text)))
    engine = GuardedEngine(EchoEngine("echo", 1, EchoSettings()), 1)
    with pytest.raises(end):
        serve(lane, [engine], Pulse(lane, 1.0))


class Closing:
    """An engine whose `close` waits for another's, as one does that makes an index."""

    name = "engine"

    def __init__(self, waits_for: threading.Event | None = None) -> None:
        self._waits_for = waits_for
        self.is_closed = threading.Event()

    def close(self) -> None:
        if self._waits_for is not None and not self._waits_for.wait(30.0):
            raise RuntimeError("the other was not closed meanwhile")
        self.is_closed.set()


def test_no_engine_waits_with_its_writes_until_another_is_closed() -> None:
    llm = Closing()
    vector = Closing(waits_for=llm.is_closed)
    close_all([vector, object(), llm])
    assert vector.is_closed.is_set()
    assert llm.is_closed.is_set()
    close_all([])


def test_an_engine_that_cannot_be_closed_keeps_no_other_open() -> None:
    broken, llm = Closing(), Closing()
    broken.close = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        close_all([broken, llm])
    assert llm.is_closed.is_set()


def test_a_new_step_has_a_new_baseline(pulse: Pulse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_main, "waited_for_core_s", lambda: 7.0)
    for start_s in (10.0, 20.0):
        monkeypatch.setattr(time, "monotonic", lambda at_s=start_s: at_s)
        pulse.enter("llm", 0.2)
        monkeypatch.setattr(time, "monotonic", lambda at_s=start_s: at_s + 3.0)
        [beat] = beats_of(pulse, monkeypatch, [])
        assert beat.step_s == pytest.approx(3.0)


def needs_transformers(name: str, epoch: int, settings: object) -> None:
    raise ModuleNotFoundError("No module named 'transformers'", name="transformers")


def needs_a_typo(name: str, epoch: int, settings: object) -> None:
    raise ModuleNotFoundError("No module named 'trasnformers'", name="trasnformers")


@pytest.mark.parametrize(
    ("factory", "error", "said"),
    [
        (needs_transformers, ConfigError, r"'llm' needs the package transformers: .*heddle\[llm\]"),
        (needs_a_typo, ModuleNotFoundError, "trasnformers"),
    ],
)
def test_a_package_of_an_extra_is_named_with_it(
    factory: object, error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_main, "tried_factory", factory, raising=False)
    kinds = frozenset({PrimitiveKind.DECODING})
    spec = EngineSpec("llm", "heddle.hosts.lane_main:tried_factory", None, 1, kinds)
    with pytest.raises(error, match=said):
        call_factory(spec, 1)
