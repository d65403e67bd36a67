"""Tools: a user's Python functions in a bounded thread pool, behind an EnginePort."""

import math
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heddle.core.commands import Admit, Cancel, Command
from heddle.core.credits import Credits
from heddle.core.frames import Cancelled, Done, Event, Failed, Frame
from heddle.core.payloads import ToolPayload
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import ToolResult

EPOCH = 1
_HEDDLE: Final = str(Path(__file__).resolve().parents[1])
CALLS_A_THREAD: Final = 16  # that may wait for it here, so that a tool may take several at once
HUNG_MAX: Final = 64  # threads that were given up and still run; beyond these none is replaced


@dataclass(slots=True, eq=False)
class _Call:
    """One call, and when it is given up [s]; inf = it hasn't begun, or has no limit."""

    task_id: int
    payload: ToolPayload
    due_s: float = math.inf


@dataclass(slots=True, eq=False)
class _Batch:
    """Calls that one thread carries out together; `is_hung`: all of them were given up."""

    calls: tuple[_Call, ...]
    is_hung: bool = False


class ToolThreads:
    """EnginePort for primitives of one kind that are calls of a function.

    A function can't be stopped from outside. One that is given up, because its time has passed or
    its request has ended, keeps its thread until it returns; its result is dropped then. Another
    thread takes that one's place, up to `HUNG_MAX`. A call that has not begun never runs.

    A thread that becomes free takes the oldest call. Where its tool takes several at once, those of
    all requests that wait for the same function go with it, up to `batch_max`; where the whole
    batch raises, each call is made again by itself.
    """

    def __init__(
        self, name: str, threads: int, clock: Clock, kind: PrimitiveKind = PrimitiveKind.TOOL
    ) -> None:
        self._name = name
        self._kinds = frozenset({kind})
        self._clock = clock
        self._threads_max = threads
        self._credits = Credits(threads * CALLS_A_THREAD)
        self._waiting: deque[_Call] = deque()
        self._live: dict[int, _Call] = {}
        self._running: list[_Batch] = []
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._frames: deque[Frame] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
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
        """Calls that may be in flight at once, most of them waiting for a thread."""
        return self._credits

    @property
    def epoch(self) -> int:
        """Always 1: threads are never restarted."""
        return EPOCH

    @property
    def due_s(self) -> float:
        """When the next call is given up; inf = none has a limit [s]."""
        with self._changed:
            return min((call.due_s for call in self._live.values()), default=math.inf)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a call has ended."""
        self._wake = wake

    def frames(self) -> Sequence[Frame]:
        """Give up the calls whose time has passed; return and forget the frames that are there."""
        with self._changed:
            now_s = self._clock.now_s()
            for call in [call for call in self._live.values() if call.due_s <= now_s]:
                self._give_up(call.task_id, Failed(call.task_id, _late(call), is_final=True))
            frames, self._frames = self._frames, deque()
        return tuple(frames)

    def send(self, command: Command) -> None:
        """Start a call, or give one up; other commands mean nothing to a tool."""
        if isinstance(command, Admit):
            task = command.task
            assert isinstance(task.payload, ToolPayload), "a tool lane was sent something else"
            with self._changed:
                call = _Call(task.task_id, task.payload)
                self._live[task.task_id] = call
                self._waiting.append(call)
                self._find_thread()
        elif isinstance(command, Cancel):
            with self._changed:
                self._give_up(command.task_id, Cancelled(command.task_id))
            self._wake()

    def close(self) -> None:
        """Take no more calls, and wait for no call that is under way."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
            threads = [] if self._running else list(self._threads)
        for thread in threads:
            thread.join()

    # -- with `_changed` held ------------------------------------------------------------------

    def _find_thread(self) -> None:
        """Let a thread see the call that has come, a new one where all others are busy."""
        hung = sum(batch.is_hung for batch in self._running)
        if len(self._waiting) <= self._idle:
            self._changed.notify()
        elif len(self._threads) < self._threads_max + min(hung, HUNG_MAX):
            # A daemon: a call that hangs doesn't keep the process from ending.
            thread = threading.Thread(target=self._work, name=f"heddle-{self._name}", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _give_up(self, task_id: int, event: Event) -> None:
        call = self._live.pop(task_id, None)
        if call is None:
            return
        self._frames.append(Frame(self._name, EPOCH, 0.0, (event,)))
        if call in self._waiting:
            self._waiting.remove(call)  # its side effects must not happen
        for batch in self._running:
            if not any(other.task_id in self._live for other in batch.calls):
                batch.is_hung = True
        if self._waiting:
            self._find_thread()

    def _take(self) -> _Batch:
        first = self._waiting.popleft()
        calls, function = [first], first.payload.function
        for call in list(self._waiting):
            if len(calls) >= first.payload.batch_max:
                break
            if call.payload.function is function:
                self._waiting.remove(call)
                calls.append(call)
        now_s = self._clock.now_s()
        for call in calls:
            call.due_s = now_s + call.payload.timeout_s
        batch = _Batch(tuple(calls))
        self._running.append(batch)
        return batch

    # -- in a thread ---------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                self._idle -= 1
                if self._is_closed:
                    self._threads.discard(threading.current_thread())
                    return
                batch = self._take()
            if any(call.due_s < math.inf for call in batch.calls):
                self._wake()  # `due_s` has changed
            started_s = self._clock.now_s()
            events = _events(batch.calls)
            seconds = self._clock.now_s() - started_s
            with self._changed:
                self._running.remove(batch)
                live = tuple(e for e in events if self._live.pop(e.task_id, None) is not None)
                if live:
                    self._frames.append(Frame(self._name, EPOCH, seconds, live))
                if batch.is_hung:  # another thread has taken this one's place
                    self._threads.discard(threading.current_thread())
                    if self._waiting:
                        self._find_thread()
            if live:
                self._wake()
            if batch.is_hung:
                return


def _late(call: _Call) -> str:
    limit_s = call.payload.timeout_s
    return f"it gave no result within its {limit_s:g} s: mend it, or raise its timeout_s"


def _events(calls: Sequence[_Call]) -> list[Event]:
    """Make calls, and return their ends."""
    if calls[0].payload.batch_max == 1:
        return [_event(calls[0], lambda call: call.payload.function(*call.payload.arguments))]
    try:
        results = _batch_results(calls)
    except BaseException as error:
        if len(calls) == 1:
            return [_failed(calls[0], error)]
        return [event for call in calls for event in _events([call])]
    return [
        _failed(call, result)
        if isinstance(result, BaseException)
        else Done(call.task_id, ToolResult(result))
        for call, result in zip(calls, results, strict=True)
    ]


def _batch_results(calls: Sequence[_Call]) -> list[object]:
    results = calls[0].payload.function([call.payload.arguments for call in calls])
    if not isinstance(results, list | tuple) or len(results) != len(calls):
        raise ValueError(f"it must return a list of {len(calls)} results, one for each call")
    return list(results)


def _event(call: _Call, make: Callable[[_Call], object]) -> Event:
    try:
        return Done(call.task_id, ToolResult(make(call)))
    except BaseException as error:
        return _failed(call, error)


def _failed(call: _Call, error: BaseException) -> Failed:
    """Return a call's failure: `exit()`, too, is the error of that request alone."""
    place = _raised_at(error)
    at = f", at {place}" if place else ""
    return Failed(call.task_id, f"{type(error).__name__}: {error}{at}")


def _nobody() -> None:
    """Stand in for a subscriber until there is one."""


def _raised_at(error: BaseException) -> str:
    """Return the place in the user's file that an error came from, such as "line 3 of mine.py".

    That file is the first one outside of Heddle on the way to the error, and the line the last one
    there, rather than one of a library that it calls. "" = the error came from no file of a user.
    """
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not frame.filename.startswith(_HEDDLE)]
    if not outside:
        return ""
    file = outside[0].filename
    line = next(frame.lineno for frame in reversed(outside) if frame.filename == file)
    return f"line {line} of {file}"
