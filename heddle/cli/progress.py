"""Progress on a terminal with `rich`, and as plain lines elsewhere."""

import sys
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from heddle.cli.output.task_pace import TaskPace
from heddle.runtime.clock import SystemClock

STREAMS_SHOWN = 6


def status(text: str) -> AbstractContextManager[object]:
    """Show on a terminal that something takes a while; elsewhere nothing."""
    return Console(stderr=True).status(text)


class ProgressLines:
    """A bar for each named task on a terminal, with texts that are being written below.

    Elsewhere (a pipe, a log) a plain line on stderr now and then, with the rate and the time left;
    texts only when complete.
    """

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
        )
        self._streams: dict[object, str] = {}
        self._live = Live(
            get_renderable=self._renderable, console=self._console, refresh_per_second=8
        )
        self._is_terminal = self._console.is_terminal
        self._tasks: dict[str, int] = {}
        self._paces: dict[str, TaskPace] = {}

    def update(self, name: str, done: int, total: int, note: str = "") -> None:
        """Show how far a task is, and a note; without one, a plain line has the task's pace."""
        if not self._is_terminal:
            self._print(name, done, total, note)
        elif name not in self._tasks:
            self._tasks[name] = len(self._tasks)
            self._bars.add_task(name, total=total, completed=done, note=note)
        else:
            task_id = self._bars.task_ids[self._tasks[name]]
            self._bars.update(task_id, completed=done, total=total, note=note)

    def stream(self, key: object, text: str | None) -> None:
        """Show a text as far as it is written; None takes it away."""
        if text is None:
            self._streams.pop(key, None)
        elif self._is_terminal:
            self._streams[key] = " ".join(text.split())

    def say(self, text: str) -> None:
        """Print a line without breaking the bars."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _renderable(self) -> RenderableType:
        newest = list(self._streams.values())[-STREAMS_SHOWN:]
        return Group(
            self._bars, *(Text(line, no_wrap=True, overflow="ellipsis") for line in newest)
        )

    def _print(self, name: str, done: int, total: int, note: str) -> None:
        now_s = self._clock.now_s()
        pace = self._paces.setdefault(name, TaskPace(done, now_s))
        if pace.is_due(done, total, now_s):
            note = note or pace.words(done, total, now_s)
            line = f"{name}: {done}/{total}" + (f", {note}" if note else "")
            print(line, file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        if self._is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_terminal:
            self._live.stop()
