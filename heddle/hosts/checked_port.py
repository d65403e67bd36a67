"""The port of an engine that isn't Heddle's own: its frames and results are checked first.

Of a frame, the ends of tasks, the load and the notes are taken over. Partial results and costs have
forms that only Heddle's engines keep to.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from math import inf

from heddle.core.commands import Admit, Command
from heddle.core.frames import TERMINAL, Done, Event, Failed, Frame, Load, Progress
from heddle.core.ports import EnginePort, Timed
from heddle.core.results import Vectors
from heddle.core.tasks import Task
from heddle.hosts.result_check import result_problem

_log = logging.getLogger(__name__)


class CheckedPort:
    """EnginePort around another: a bad result fails its own task, a bad frame those under way.

    Args:
        port: what carries the tasks out.
        dim: the length that vectors must have; None = any.
    """

    def __init__(self, port: EnginePort, dim: int | None = None) -> None:
        self.name, self.kinds, self.credits = port.name, port.kinds, port.credits
        self._port, self._dim = port, dim
        self._tasks: dict[int, Task] = {}  # under way, in order of admission
        self._refused: list[Frame] = []
        self._wake: Callable[[], None] = _nobody

    @property
    def epoch(self) -> int:
        """The port's own."""
        return self._port.epoch

    @property
    def due_s(self) -> float:
        """When the port wants to be read; inf = whenever something arrives [s]."""
        return self._port.due_s if isinstance(self._port, Timed) else inf

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever frames have arrived."""
        self._wake = wake
        self._port.subscribe(wake)

    def send(self, command: Command) -> None:
        """Pass a command on; a task that the port refuses by an error has failed."""
        if isinstance(command, Admit):
            self._tasks[command.task.task_id] = command.task
        try:
            self._port.send(command)
        except Exception as error:
            _log.exception("engine %s: send raised", self.name)
            if isinstance(command, Admit):
                what = f"send raised {type(error).__name__}: {error}"
                self._refused.append(self._failed([command.task.task_id], what))
                self._wake()

    def frames(self) -> Sequence[Frame]:
        """Return the frames that have arrived, as far as they can be believed."""
        found, self._refused = self._refused, []
        try:
            for frame in self._port.frames():
                checked = self._checked(frame)
                for event in checked.events:
                    self._tasks.pop(event.task_id, None)
                found.append(checked)
        except Exception as error:
            _log.exception("engine %s: its frames can't be read", self.name)
            what = f"its frames can't be read: {type(error).__name__}: {error}"
            found.append(self._failed(list(self._tasks), what))
        return found

    def _checked(self, frame: object) -> Frame:
        if not isinstance(frame, Frame):
            raise TypeError(f"{frame!r:.40} is no Frame")
        events = tuple(self._event(e) for e in frame.events if not isinstance(e, Progress))
        load = Load(*map(int, frame.load))
        notes = tuple(map(str, frame.notes))
        return Frame(self.name, self.epoch, float(frame.seconds), events, load=load, notes=notes)

    def _event(self, event: object) -> Event:
        if not isinstance(event, TERMINAL):
            raise TypeError(f"{event!r:.40} is no event")
        task = self._tasks.get(event.task_id)
        if task is None or not isinstance(event, Done):
            return event
        try:
            problem = result_problem(task.kind, task.payload, event.result)
            problem = problem or self._dim_problem(event)
        except Exception as error:  # the result is of no known form
            problem = f"its result can't be read: {type(error).__name__}: {error}"
        return Failed(event.task_id, problem, is_final=True) if problem else event

    def _dim_problem(self, done: Done) -> str:
        if self._dim is None or not isinstance(done.result, Vectors):
            return ""
        dim = done.result.values.shape[1]
        return "" if dim == self._dim else f"its vectors have length {dim}, the corpus {self._dim}"

    def _failed(self, task_ids: Iterable[int], message: str) -> Frame:
        for task_id in task_ids:
            self._tasks.pop(task_id, None)
        events = tuple(Failed(task_id, message) for task_id in task_ids)
        return Frame(self.name, self.epoch, 0.0, events)


def _nobody() -> None:
    """Stand in for a subscriber until there is one."""
