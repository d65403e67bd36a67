"""An engine that never raises to its host: its exceptions become Failed events."""

import logging
import math
from typing import Final

from heddle.core.commands import TURN_S, Admit, Cancel, Command, Steer
from heddle.core.errors import Unreachable
from heddle.core.frames import TERMINAL, Event, Failed, Frame, Progress
from heddle.core.ports import SteppedEngine
from heddle.hosts.live_tasks import LiveTasks

_EVENTS: Final = (Progress, *TERMINAL)
_log = logging.getLogger(__name__)


class GuardedEngine:
    """Drives one SteppedEngine and numbers its frames.

    Engines turn their own failures into events; this is the net below them. A step that raises,
    or returns no frame, fails every live task, cancels them inside the engine, and the engine goes
    on with the next ones. An engine that raises with nothing to do is left alone until its next
    command, so a broken one can't spin.

    Args:
        engine: the engine.
        epoch: of its lane.
        takes_turns: whether other engines wait for its steps.
    """

    def __init__(self, engine: SteppedEngine, epoch: int, *, takes_turns: bool = False) -> None:
        self.engine = engine
        self._step_s_max = TURN_S if takes_turns else math.inf
        self._epoch = epoch
        self._live = LiveTasks()
        self._abandoned: set[int] = set()  # failed here; the engine may still speak of them
        self._budget_s = math.inf
        self._stalled = False
        self._number = 0

    @property
    def live(self) -> LiveTasks:
        """The tasks under way."""
        return self._live

    @property
    def wants_step(self) -> bool:
        """Whether the engine has work and may be stepped."""
        return not self._stalled and self.engine.has_work

    def apply(self, command: Command) -> Frame | None:
        """Pass a command on; returns a frame only where the engine refused to take it."""
        self._stalled = False
        if isinstance(command, Steer):
            command = command.at_most(self._step_s_max)
            self._budget_s = self._budget_s if command.budget_s is None else command.budget_s
        if isinstance(command, Admit):
            self._abandoned.discard(command.task.task_id)
        self._live.sent(command)
        try:
            self.engine.apply(command)
        except Exception as error:
            _log.exception("engine %s: a command raised", self.engine.name)
            return self._refused(command, error)
        return None

    def predicted_step_s(self) -> float:
        """Return the engine's own prediction [s]; inf (never hung) where it can't say."""
        try:
            return self.engine.predicted_step_s()
        except Exception:
            _log.exception("engine %s: predicting a step raised", self.engine.name)
            return math.inf

    def step(self, now_s: float) -> Frame:
        """Step the engine once; never raises."""
        had_tasks = len(self._live) > 0
        try:
            frame = self.engine.step(now_s, self._budget_s)
            events = _events(frame)
        except Exception as error:
            _log.exception("engine %s: a step raised", self.engine.name)
            self._stalled = not had_tasks
            return self._failed_step(error)
        if self._abandoned:
            events = self._without_abandoned(events)
        self._live.answered(events)
        self._number += 1
        return frame._replace(events=events, number=self._number)

    def fail_all(self, message: str) -> Frame:
        """Return a frame that fails every live task."""
        return self._frame(self._live.fail_all(message))

    def _refused(self, command: Command, error: Exception) -> Frame | None:
        if not isinstance(command, Admit):
            return None
        is_away = isinstance(error, Unreachable)
        failed = Failed(command.task.task_id, _words(error), is_away=is_away)
        self._live.answered((failed,))
        return self._frame((failed,))

    def _failed_step(self, error: Exception) -> Frame:
        task_ids = self._live.ids()
        frame = self.fail_all(f"a step raised {_words(error)}")
        for task_id in task_ids:
            self._abandoned.add(task_id)
            self._apply_quietly(Cancel(task_id))
        return frame

    def _apply_quietly(self, command: Command) -> None:
        try:
            self.engine.apply(command)
        except Exception:
            _log.exception("engine %s: %s raised", self.engine.name, command)

    def _without_abandoned(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        kept = tuple(event for event in events if event.task_id not in self._abandoned)
        for event in events:
            if isinstance(event, TERMINAL):
                self._abandoned.discard(event.task_id)
        return kept

    def _frame(self, events: tuple[Failed, ...]) -> Frame:
        self._number += 1
        return Frame(self.engine.name, self._epoch, 0.0, events, number=self._number)


def _events(frame: object) -> tuple[Event, ...]:
    """Return the events of what a step returned.

    Raises:
        TypeError: it is no frame, or something else stands among its events.
    """
    if not isinstance(frame, Frame):
        raise TypeError(f"step returned {frame!r:.40}, which is no Frame")
    for event in frame.events:
        if not isinstance(event, _EVENTS):
            raise TypeError(f"step returned a Frame with {event!r:.40}, which is no event")
    return tuple(frame.events)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
