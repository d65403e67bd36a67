"""A lane whose engine answers at once: what carrying a task there and back costs."""

import statistics
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import psutil

from heddle.core.commands import Admit, Command
from heddle.core.frames import Done, Frame
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.core.tasks import Identity, Task
from heddle.hosts.lane_process import LaneProcess
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.process import ProcessLane, Starter
from heddle.hosts.process_port import ProcessPort
from heddle.runtime.supervision import LaneLimits

DIM = 384
KINDS = frozenset({PrimitiveKind.EMBEDDING})
TEXTS = ("what is a loom?",)


@dataclass(frozen=True, slots=True)
class EchoSettings:
    """How long the vector is that answers each task."""

    dim: int = DIM


@dataclass(slots=True)
class EchoEngine:
    """A SteppedEngine: a step answers all tasks that wait."""

    name: str
    epoch: int
    dim: int
    kinds: frozenset[PrimitiveKind] = KINDS
    waiting: deque[Task] = field(default_factory=deque)

    @property
    def has_work(self) -> bool:
        """Whether a step would say something."""
        return bool(self.waiting)

    def apply(self, command: Command) -> None:
        """Take a task."""
        if isinstance(command, Admit):
            self.waiting.append(command.task)

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Answer every task with a vector."""
        vector = np.ones((1, self.dim), np.float32)
        events = tuple(Done(task.task_id, Vectors(vector, tokens=4)) for task in self.waiting)
        self.waiting.clear()
        return Frame(self.name, self.epoch, 0.0, events, has_work=False)

    def predicted_step_s(self) -> float:
        """Return a step's length: next to nothing."""
        return 1e-4


def build_engine(name: str, epoch: int, settings: EchoSettings) -> EchoEngine:
    """Build the engine inside its lane."""
    return EchoEngine(name, epoch, settings.dim)


class EchoLane:
    """A lane with that engine, and what its tasks take."""

    def __init__(self, lane: ProcessLane, port: ProcessPort, process: psutil.Process) -> None:
        self._lane, self._port, self._process = lane, port, process
        self._ids = count(1)
        self._taken = 0  # tasks that have ended and were not waited for yet
        self._arrived = threading.Event()
        port.subscribe(self._arrived.set)

    def round_trip_s(self, tasks: int) -> float:
        """Return the median time of a task, one after another [s]."""
        times_s = []
        for _ in range(tasks):
            began_s = time.perf_counter()
            self._send(1)
            self._take(1)
            times_s.append(time.perf_counter() - began_s)
        return statistics.median(times_s)

    def cpu_s(self, tasks: int, in_flight: int) -> float:
        """Return the CPU time of a task in this process and in the lane, many in flight [s]."""
        before_s, in_flight = self._used_s(), min(in_flight, tasks)
        self._send(in_flight)
        for _ in range(in_flight, tasks):
            self._take(1)
            self._send(1)
        self._take(in_flight)
        return (self._used_s() - before_s) / tasks

    @property
    def is_at_rest(self) -> bool:
        """Whether every task has ended once, and was waited for."""
        return not self._taken and not self._port.live

    def _send(self, tasks: int) -> None:
        for _ in range(tasks):
            identity = Identity(1, "echo")
            task = Task(next(self._ids), PrimitiveKind.EMBEDDING, identity, EmbedPayload(TEXTS))
            self._port.send(Admit(task))

    def _take(self, tasks: int) -> None:
        """Wait until `tasks` more tasks have ended than were waited for before."""
        while self._taken < tasks:
            self._arrived.wait()
            self._arrived.clear()
            self._taken += sum(len(frame.events) for frame in self._port.frames())
        self._taken -= tasks

    def _used_s(self) -> float:
        lane = self._process.cpu_times()
        return time.process_time() + lane.user + lane.system


@contextmanager
def echo_lane(limits: LaneLimits, start: Starter = LaneProcess) -> Iterator[EchoLane]:
    """Start such a lane, on this machine or where `start` says, and end it at last."""
    factory = "benchmarks.support.echo_lane:build_engine"
    spec = EngineSpec("echo", factory, EchoSettings(), 1 << 16, KINDS)
    with ProcessLane(LaneSpec("echo", (spec,)), limits, start) as lane:
        echo = EchoLane(lane, lane.ports["echo"], psutil.Process(lane.health.pid))
        yield echo
        assert echo.is_at_rest, "a task has ended twice, or never"
