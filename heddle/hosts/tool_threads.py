"""Tools: a user's Python functions in a bounded thread pool, behind an EnginePort."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from heddle.core.commands import Admit, Cancel, Command
from heddle.core.credits import Credits
from heddle.core.frames import Cancelled, Done, Event, Failed, Frame
from heddle.core.payloads import ToolPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import ToolResult

EPOCH = 1


class ToolThreads:
    """EnginePort for primitives of one kind that are calls of a function.

    A function can't be stopped from outside: a cancelled call that has begun keeps its thread
    until it returns, and its result is dropped then. One that has not begun never runs.
    """

    def __init__(
        self, name: str, threads: int, clock: Clock, kind: PrimitiveKind = PrimitiveKind.TOOL
    ) -> None:
        self._name = name
        self._kinds = frozenset({kind})
        self._clock = clock
        self._credits = Credits(threads)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"heddle-{name}")
        self._frames: deque[Frame] = deque()
        self._live: set[int] = set()
        self._lock = threading.Lock()
        self._wake: Callable[[], None] = _nobody

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._name

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """Tools, or what else it was made for."""
        return self._kinds

    @property
    def credits(self) -> Credits:
        """Calls that may be in flight at once."""
        return self._credits

    @property
    def epoch(self) -> int:
        """Always 1: threads are never restarted."""
        return EPOCH

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a call has ended."""
        self._wake = wake

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived."""
        with self._lock:
            frames, self._frames = self._frames, deque()
        return tuple(frames)

    def send(self, command: Command) -> None:
        """Start a call, or give one up; other commands mean nothing to a tool."""
        if isinstance(command, Admit):
            task = command.task
            assert isinstance(task.payload, ToolPayload), "a tool lane was sent something else"
            with self._lock:
                self._live.add(task.task_id)
            self._pool.submit(self._call, task.task_id, task.payload)
        elif isinstance(command, Cancel):
            self._end(Cancelled(command.task_id), 0.0)

    def close(self) -> None:
        """Take no more calls and wait for none."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _call(self, task_id: int, payload: ToolPayload) -> None:
        with self._lock:
            if task_id not in self._live:
                return  # cancelled while it waited: its side effects must not happen
        started_s = self._clock.now_s()
        try:
            event: Event = Done(task_id, ToolResult(payload.function(*payload.arguments)))
        except BaseException as error:
            # Whatever a user's function raises, `exit()` too, is that request's error alone.
            event = Failed(task_id, f"{type(error).__name__}: {error}")
        self._end(event, self._clock.now_s() - started_s)

    def _end(self, event: Event, seconds: float) -> None:
        with self._lock:
            if event.task_id not in self._live:
                return
            self._live.discard(event.task_id)
            self._frames.append(Frame(self._name, EPOCH, seconds, (event,)))
        self._wake()


def _nobody() -> None:
    """Nobody listens yet."""
