"""A trivial engine that a test can make slow, crash, hang, or refuse to start.

A text starting with `!` is an order to the engine; any other is embedded as `texts_to_vectors`
says, so that a test can compute the right answer by itself.
"""

import gc
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heddle.core.commands import Admit, Cancel, Command
from heddle.core.errors import ConfigError, Unreachable
from heddle.core.frames import Cancelled, Done, Event, Failed, Frame, Load, Progress
from heddle.core.payloads import EmbedPayload, Payload, ToolPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle, Prefilled, ToolResult, Vectors
from heddle.core.tasks import Identity, Task

CRASH = "!crash"  # the process ends at once, as in a segmentation fault
HANG = "!hang"  # the step never ends
GRIND = "!grind"  # the step computes in one call that holds the interpreter
GRIND_STEPS = 50_000_000
FREEZE = "!freeze"  # the whole process stops, heartbeats too
RAISE = "!raise"  # the step raises
FAIL = "!fail"  # the engine fails the task by itself
STREAM = "!stream"  # followed by a count: one Progress a step
WHERE = "!where"  # answered with a ToolResult of pid, cores and thread variables
KEPT = "!kept"  # answered with whether collections run, and how many objects they leave out
FORK = "!fork"  # starts a child process that would outlive the lane
UNPICKLABLE = "!unpicklable"  # answered with a result that can't be sent
UNREADABLE = "!unreadable"  # answered with a result that can be sent and not be read
KINDS = frozenset({PrimitiveKind.EMBEDDING, PrimitiveKind.TOOL})


@dataclass(frozen=True, slots=True)
class EchoSettings:
    """How the engine behaves."""

    dim: int = 4
    step_sleep_s: float = 0.0
    start_error: str = ""  # "config", "away", "unexpected", "exit" or "slow"
    start_error_from_epoch: int = 1
    predicted_step_s: float = 0.01
    closes_into: str = ""  # a file that it writes when it is closed


def texts_to_vectors(texts: Sequence[str], dim: int) -> NDArray[np.float32]:
    """Return row i = (length, 1, 2, ...) of text i."""
    rows = np.tile(np.arange(dim, dtype=np.float32), (len(texts), 1))
    rows[:, 0] = [len(text) for text in texts]
    return rows


def admit(task_id: int, *texts: str, payload: Payload | None = None) -> Admit:
    """Return the command that starts a task with these texts, or with another payload."""
    body = payload or EmbedPayload(texts)
    return Admit(Task(task_id, PrimitiveKind.EMBEDDING, Identity(1, "node"), body))


class EchoEngine:
    """SteppedEngine: one task a step, oldest first."""

    def __init__(self, name: str, epoch: int, settings: EchoSettings) -> None:
        self.name = name
        self.kinds = KINDS
        self._epoch = epoch
        self._settings = settings
        self._waiting: list[Task] = []
        self._streamed: dict[int, int] = {}
        self._events: list[Event] = []
        self._never = threading.Event()

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._events)

    def predicted_step_s(self) -> float:
        return self._settings.predicted_step_s

    def apply(self, command: Command) -> None:
        if isinstance(command, Admit):
            if not isinstance(command.task.payload, EmbedPayload | ToolPayload):
                raise TypeError(f"no {type(command.task.payload).__name__} here")
            self._waiting.append(command.task)
        if isinstance(command, Cancel):
            before = len(self._waiting)
            self._waiting = [t for t in self._waiting if t.task_id != command.task_id]
            if len(self._waiting) < before:
                self._events.append(Cancelled(command.task_id))

    def close(self) -> None:
        if self._settings.closes_into:
            Path(self._settings.closes_into).write_text(self.name)

    def step(self, now_s: float, budget_s: float) -> Frame:
        if self._settings.step_sleep_s:
            self._never.wait(self._settings.step_sleep_s)
        if self._waiting:
            task = self._waiting.pop(0)
            self._events.append(self._serve(task))
        events, self._events = tuple(self._events), []
        load = Load(running=0, waiting=len(self._waiting))
        features = {"call": 1.0, "budget_s": budget_s}
        return Frame(self.name, self._epoch, 0.0, events, features, load, None, self.has_work)

    def _serve(self, task: Task) -> Event:
        payload = task.payload
        if isinstance(payload, ToolPayload):
            return Done(task.task_id, ToolResult(payload.arguments))
        assert isinstance(payload, EmbedPayload)
        first = payload.texts[0] if payload.texts else ""
        if first == CRASH:
            os._exit(41)
        if first == HANG:
            self._never.wait()
        if first == GRIND:
            sum(range(GRIND_STEPS))  # one call, so no other thread of this process runs meanwhile
        if first == FREEZE:
            os.kill(os.getpid(), signal.SIGSTOP)
        if first == RAISE:
            raise RuntimeError("the worker broke")
        if first == FAIL:
            return Failed(task.task_id, "no good", is_input=True)
        if first == UNPICKLABLE:
            return Done(task.task_id, ToolResult(threading.Lock()))
        if first == UNREADABLE:
            return Done(task.task_id, ToolResult(Unreadable()))
        if first == FORK:
            return Done(task.task_id, ToolResult(_fork_sleeper()))
        if first == KEPT:
            return Done(task.task_id, ToolResult((gc.isenabled(), gc.get_freeze_count())))
        if first == WHERE:
            names = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")
            facts = (os.getpid(), sorted(os.sched_getaffinity(0)), [os.environ[n] for n in names])
            return Done(task.task_id, ToolResult(facts))
        if first.startswith(STREAM):
            return self._stream(task, int(first.removeprefix(STREAM)))
        vectors = texts_to_vectors(payload.texts, self._settings.dim)
        return Done(task.task_id, Vectors(vectors, tokens=vectors.size))

    def _stream(self, task: Task, count: int) -> Event:
        done = self._streamed.get(task.task_id, 0) + 1
        if done > count:
            return Done(task.task_id, Prefilled(KvHandle(self.name, self._epoch, 1), count, 0))
        self._streamed[task.task_id] = done
        self._waiting.append(task)
        return Progress(task.task_id, (done,), "x", fraction=done / count)


class Unreadable:
    """Something that only its own process can make sense of."""

    def __reduce__(self) -> tuple[object, ...]:
        return _refuse_elsewhere, (os.getpid(),)


def _refuse_elsewhere(pid: int) -> None:
    if os.getpid() != pid:
        raise LookupError("this makes no sense here")


def _fork_sleeper() -> int:
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    return pid


def build(name: str, epoch: int, settings: EchoSettings) -> EchoEngine:
    """Build the engine, or fail to, as the settings say."""
    if settings.start_error and epoch >= settings.start_error_from_epoch:
        if settings.start_error == "config":
            raise ConfigError("model directory 'nowhere' is missing: give --model a directory")
        if settings.start_error == "away":
            raise Unreachable("corpus: the database can't be reached")
        if settings.start_error == "exit":
            os._exit(3)
        if settings.start_error == "slow":
            threading.Event().wait()
        raise RuntimeError("something else")
    return EchoEngine(name, epoch, settings)
