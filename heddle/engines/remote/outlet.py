"""Where a remote engine's events become frames: one for each turn of its event loop."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from heddle.core.frames import NO_COUNTS, TERMINAL, Event, Frame, Load, Progress

EPOCH: Final = 1  # a remote engine has no process that could be restarted
GATHER_S: Final = 0.004  # that a later piece of an answer may wait for those of other answers
GATHERING_FROM: Final = 8  # tasks under way; with fewer there is little to be gathered


@dataclass(slots=True)
class Outlet:
    """Collects events on the engine's loop; the runtime's thread takes the frames.

    Everything that one turn of the loop brings, of all answers under way, goes out in one frame
    with one call of `wake`: that is what keeps many streams cheap. With many of them, a piece of
    text that is not its answer's first waits up to `GATHER_S` for others; beginnings and ends
    never wait.

    Args:
        name: the engine's.
        loop: the engine's event loop.
        notes: returns where the engine runs degraded, in words.

    Mutates: `open` holds the tasks that still owe their terminal event; the runtime's thread adds
    to it. Of the methods only `frames` may be called on another thread than the loop's.
    """

    name: str
    loop: asyncio.AbstractEventLoop
    notes: Callable[[], tuple[str, ...]]
    open: set[int] = field(default_factory=set)
    wake: Callable[[], None] = lambda: None
    _events: list[Event] = field(default_factory=list)
    _texts: dict[int, int] = field(default_factory=dict)  # a task's place among the events
    _begun: set[int] = field(default_factory=set)  # tasks whose first text is out
    _flush: asyncio.TimerHandle | None = None
    _is_urgent: bool = False
    _tokens: int = 0
    _seconds: float = 0.0
    _step_tokens: int = 0
    _frames: deque[Frame] = field(default_factory=deque)

    def tell(self, event: Event) -> None:
        """Report an event; a second terminal event of a task is dropped."""
        if event.task_id not in self.open:
            return
        if isinstance(event, TERMINAL):
            self.open.discard(event.task_id)
            self._begun.discard(event.task_id)
        self._add(event)

    def tell_text(self, task_id: int, text: str) -> None:
        """Report new text of an answer; it joins text of the same turn."""
        if task_id not in self.open:
            return
        place = self._texts.get(task_id)
        if place is None:
            self._texts[task_id] = len(self._events)
            self._add(Progress(task_id, text=text), may_wait=task_id in self._begun)
            self._begun.add(task_id)
        else:
            before = self._events[place]
            assert isinstance(before, Progress), "another event stands in a text's place"
            self._events[place] = before._replace(text=before.text + text)

    def measure(self, tokens: int, seconds: float, step_tokens: int = 0) -> None:
        """Say what the next frame's answers took: cost models read it from the frame.

        `step_tokens` are those that may be sent at once from now on; 0 = no bound is known.
        """
        self._step_tokens = step_tokens
        self._tokens += tokens
        self._seconds = max(self._seconds, seconds)

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that are out, oldest first."""
        waiting = self._frames
        return [waiting.popleft() for _ in range(len(waiting))]

    def flush(self) -> None:
        """Send a frame, if there is anything to say."""
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if not self._events:
            return
        events, self._events = tuple(self._events), []
        self._texts.clear()
        load = Load(running=len(self.open))
        counts = {"tokens": self._tokens, "tokens_max": self._step_tokens if self._tokens else 0}
        features = {name: float(count) for name, count in counts.items() if count} or NO_COUNTS
        frame = Frame(self.name, EPOCH, self._seconds, events, features, load, notes=self.notes())
        self._tokens, self._seconds = 0, 0.0
        self._frames.append(frame)
        with contextlib.suppress(RuntimeError):  # the reader's event loop is closed
            self.wake()

    def _add(self, event: Event, *, may_wait: bool = False) -> None:
        self._events.append(event)
        if may_wait and len(self.open) >= GATHERING_FROM:
            if self._flush is None:
                self._flush = self.loop.call_later(GATHER_S, self.flush)
        elif not self._is_urgent:
            self._is_urgent = True
            self.loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._is_urgent = False
        self.flush()
