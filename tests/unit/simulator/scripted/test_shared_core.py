import random

from heddle.core.commands import Admit
from heddle.core.frames import Done, Frame
from heddle.core.payloads import EmbedPayload, TextRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Asked
from heddle.core.tasks import Identity, Task
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.scripted.shared_core import SharedCore
from heddle.simulator.timeline import Timeline


class OneByOne:
    """An engine that answers a task a step, each in `step_s`; every second step has no event."""

    def __init__(self, name, device, step_s, trace):
        self.name, self.kinds = name, frozenset({PrimitiveKind.EMBEDDING})
        self._device, self._step_s, self._trace = device, step_s, trace
        self._tasks, self._is_half = [], False

    @property
    def has_work(self):
        return bool(self._tasks)

    def apply(self, command):
        self._tasks.append(command.task.task_id)

    def step(self, now_s, budget_s):
        self._device.run(self._step_s)
        self._trace.append((round(now_s, 6), self.name))
        self._is_half = not self._is_half
        events = () if self._is_half else (Done(self._tasks.pop(0), Asked("")),)
        return Frame(self.name, 1, self._step_s, events)


def task(number):
    payload = EmbedPayload(("text",), TextRole.QUERY)
    return Admit(Task(number, PrimitiveKind.EMBEDDING, Identity(number, "node"), payload), 0)


def started(names, latency_s=0.0, step_s=1.0):
    timeline, trace = Timeline(), []
    core = SharedCore(timeline, latency_s)
    for name in names:
        device = SimulatedDevice(timeline, random.Random(0), jitter_share=0.0)
        core.add(OneByOne(name, device, step_s, trace), device, 8)
    return timeline, core.ports, trace


def run(timeline):
    while timeline.step():
        pass


def test_engines_of_a_core_take_turns_and_never_overlap() -> None:
    timeline, (a, b), trace = started(["a", "b"])
    for number, port in enumerate((a, b)):
        port.send(task(number))
    run(timeline)
    assert trace == [(0.0, "a"), (1.0, "b"), (2.0, "a"), (3.0, "b")]
    assert (a.worked_s, b.worked_s) == (2.0, 2.0)


def test_a_message_takes_its_time_both_ways() -> None:
    timeline, (port,), trace = started(["a"], latency_s=0.25)
    heard = []
    port.subscribe(lambda: heard.append(timeline.now_s()))
    port.send(task(1))
    run(timeline)
    assert trace[0] == (0.25, "a")
    assert heard == [0.25 + 2.0 + 0.25]


def test_only_a_frame_with_events_wakes_and_none_is_lost() -> None:
    timeline, (port,), _ = started(["a"])
    heard = []
    port.subscribe(lambda: heard.append(timeline.now_s()))
    port.send(task(1))
    run(timeline)
    assert len(heard) == 1
    assert [frame.number for frame in port.frames()] == [1, 2]
    assert port.frames() == []
