"""An engine in this process, stepped by the event loop that the runtime lives on."""

import asyncio
from collections.abc import Callable, Sequence

from heddle.core.commands import Admit, Command
from heddle.core.credits import Credits
from heddle.core.frames import Failed, Frame
from heddle.core.ports import Clock, Closable, SteppedEngine, Waking
from heddle.core.primitives import PrimitiveKind
from heddle.hosts.guarded_engine import GuardedEngine

EPOCH = 1  # an engine in this process is never restarted


class InlineHost:
    """EnginePort of an engine in this process: no thread, no polling.

    Each callback of the loop makes one step, so commands sent meanwhile are seen between steps;
    an idle engine has no callback scheduled. Without a running loop nothing steps by itself:
    call `step_once`.
    """

    def __init__(self, engine: SteppedEngine, credits_total: int, clock: Clock) -> None:
        self._guarded = GuardedEngine(engine, EPOCH)
        self._clock = clock
        self._credits = Credits(credits_total)
        self._frames: list[Frame] = []
        self._wake: Callable[[], None] = _nobody
        self._scheduled: asyncio.Handle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        if isinstance(engine, Waking):
            engine.subscribe(self._on_wake)

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._guarded.engine.name

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return self._guarded.engine.kinds

    @property
    def credits(self) -> Credits:
        """Rows it may hold at once."""
        return self._credits

    @property
    def epoch(self) -> int:
        """Always 1."""
        return EPOCH

    def send(self, command: Command) -> None:
        """Apply a command and, on a running loop, schedule the next step."""
        if self._closed:
            self._refuse(command)
            return
        refusal = self._guarded.apply(command)
        if refusal is not None:
            self._deliver(refusal)
        self._schedule()

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived, oldest first."""
        frames, self._frames = self._frames, []
        return frames

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever frames have arrived."""
        self._wake = wake

    def step_once(self, now_s: float) -> bool:
        """Step the engine now if it has work; returns whether it did."""
        if not self._guarded.wants_step:
            return False
        self._deliver(self._guarded.step(now_s))
        return True

    def close(self) -> None:
        """Fail what is live, step no more and close the engine. Can be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        if len(self._guarded.live):
            self._deliver(self._guarded.fail_all(f"engine {self.name} was closed"))
        engine = self._guarded.engine
        if isinstance(engine, Closable):
            engine.close()

    def _schedule(self) -> None:
        if self._scheduled is not None:
            return
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # no loop: the caller steps by hand
        if not self._guarded.wants_step:
            return
        self._scheduled = self._loop.call_soon(self._on_turn)

    def _on_wake(self) -> None:
        """Step again: the engine has got work from a thread of its own."""
        if self._loop is not None and not self._closed:
            self._loop.call_soon_threadsafe(self._schedule)

    def _on_turn(self) -> None:
        self._scheduled = None
        try:
            self.step_once(self._clock.now_s())
        finally:
            self._schedule()

    def _refuse(self, command: Command) -> None:
        if isinstance(command, Admit):
            failed = Failed(command.task.task_id, f"engine {self.name} was closed")
            self._deliver(Frame(self.name, EPOCH, 0.0, (failed,)))

    def _deliver(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._wake()


def _nobody() -> None:
    """Stand in for a subscriber until there is one."""
