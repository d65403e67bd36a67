import random
from functools import partial

from heddle.core.commands import Admit
from heddle.core.frames import Done, Failed, Frame
from heddle.core.payloads import EmbedPayload, TextRole
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Asked
from heddle.core.tasks import Identity, Task
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.scripted.shared_core import NOTICED_S, SharedCore
from heddle.simulator.timeline import Timeline


class OneByOne:
    """An engine that answers a task a step, each in `step_s`; every second step has no event."""

    def __init__(self, name, device, step_s, trace, epoch=1):
        self.epoch = epoch
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
        return Frame(self.name, self.epoch, self._step_s, events)


def task(number):
    payload = EmbedPayload(("text",), TextRole.QUERY)
    return Admit(Task(number, PrimitiveKind.EMBEDDING, Identity(number, "node"), payload), 0)


def started(names, latency_s=0.0, step_s=1.0):
    timeline, trace = Timeline(), []
    core = SharedCore(timeline, latency_s)
    for name in names:
        device = SimulatedDevice(timeline, random.Random(0), jitter_share=0.0)
        rebuild = partial(OneByOne, name, device, step_s, trace)
        core.add(rebuild(), device, 8, rebuild)
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


def test_a_lost_node_fails_what_it_held_and_comes_back_as_its_next_epoch() -> None:
    timeline, ports, trace = started(["a", "b"], latency_s=0.25)
    a, b = ports
    for number, port in enumerate((a, b, a)):
        port.send(task(number))
    timeline.at(1.5, lambda: a.core.lose(10.0))
    timeline.at(2.0, lambda: a.core.lose(99.0))  # it is lost already
    timeline.at(3.0, lambda: a.send(task(3)))  # not known yet
    timeline.at(5.0, lambda: b.send(task(4)))  # it waits for the next epoch
    run(timeline)
    back_s = 1.5 + NOTICED_S + 10.0
    assert [at_s for at_s, _ in trace] == [0.25, 1.25, back_s, back_s + 1.0]
    assert (a.epoch, b.epoch) == (2, 2)

    def ends(port, kind):
        events = [event for frame in port.frames() for event in frame.events]
        return [event.task_id for event in events if isinstance(event, kind)]

    assert ends(a, Failed) == [0, 2, 3]
    assert ends(b, Done) == [4]
