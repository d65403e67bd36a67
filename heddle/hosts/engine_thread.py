"""An engine in this process on a thread of its own: its long steps hold up no other engine."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from heddle.core.commands import Admit, Command
from heddle.core.credits import Credits
from heddle.core.frames import Failed, Frame
from heddle.core.ports import Clock, Closable, SteppedEngine, Waking
from heddle.hosts.guarded_engine import GuardedEngine

EPOCH: Final = 1  # an engine in this process is never restarted
CLOSE_S_MAX: Final = 5.0  # a step can't be stopped from outside

_log = logging.getLogger(__name__)


class EngineThread:
    """EnginePort of one engine, which a thread commands and steps.

    Args:
        engine: stepped while it has work; the thread sleeps while it has none.
        credits_total: rows that it may hold at once.
        clock: the time of its steps.
    """

    def __init__(self, engine: SteppedEngine, credits_total: int, clock: Clock) -> None:
        self._guarded = GuardedEngine(engine, EPOCH)
        self.name, self.kinds = engine.name, engine.kinds
        self.credits = Credits(credits_total)
        self.epoch = EPOCH
        self._clock = clock
        self._commands: deque[Command] = deque()
        self._frames: deque[Frame] = deque()
        self._bell = threading.Event()  # rung behind each command, so none is slept through
        self._wake: Callable[[], None] = _nobody
        self._is_closed = False
        if isinstance(engine, Waking):
            engine.subscribe(self._bell.set)
        self._thread = threading.Thread(target=self._run, name=f"heddle-{engine.name}", daemon=True)
        self._thread.start()

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from the engine's thread, whenever frames have arrived."""
        self._wake = wake

    def send(self, command: Command) -> None:
        """Queue a command; a closed engine fails each task."""
        if not self._is_closed:
            self._commands.append(command)
            self._bell.set()
        elif isinstance(command, Admit):
            failed = Failed(command.task.task_id, f"engine {self.name} was closed")
            self._deliver(Frame(self.name, EPOCH, 0.0, (failed,)))

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived, oldest first."""
        return [self._frames.popleft() for _ in range(len(self._frames))]

    def close(self) -> None:
        """Fail what is live, end the thread and close the engine. Can be called twice."""
        self._is_closed = True
        self._bell.set()
        self._thread.join(CLOSE_S_MAX)
        if self._thread.is_alive():
            _log.warning("engine %s: a step still runs; it is left behind", self.name)

    def _run(self) -> None:
        try:
            while not self._is_closed:
                self._turn()
        except SystemExit:
            _log.exception("engine %s called exit(): it takes no more tasks", self.name)
        self._is_closed = True
        self._apply_commands()
        self._deliver(self._guarded.fail_all(f"engine {self.name} was closed"))
        if isinstance(self._guarded.engine, Closable):
            self._guarded.engine.close()

    def _turn(self) -> None:
        """Apply what has been sent, and step; sleep first where nothing is to be done."""
        if not self._wants_step():
            self._bell.wait()
        self._bell.clear()
        self._apply_commands()
        if not self._is_closed and self._wants_step():
            self._deliver(self._guarded.step(self._clock.now_s()))

    def _apply_commands(self) -> None:
        while self._commands:
            refusal = self._guarded.apply(self._commands.popleft())
            if refusal is not None:
                self._deliver(refusal)

    def _wants_step(self) -> bool:
        try:
            return self._guarded.wants_step
        except Exception as error:
            _log.exception("engine %s: has_work raised", self.name)
            if len(self._guarded.live):
                what = f"has_work raised {type(error).__name__}: {error}"
                self._deliver(self._guarded.fail_all(what))
            return False

    def _deliver(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._wake()


def _nobody() -> None:
    """Stand in for a subscriber until there is one."""
