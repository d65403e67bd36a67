"""Progress on a terminal with `rich`, and as plain lines elsewhere."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINES_PER_TASK = 10  # plain output: about every tenth of the way


class ProgressLines:
    """A bar for each named task on a terminal; else a line now and then on stderr."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._is_terminal = self._console.is_terminal
        self._tasks: dict[str, int] = {}
        self._printed: dict[str, int] = {}

    def update(self, name: str, done: int, total: int) -> None:
        """Show how far a task is."""
        if not self._is_terminal:
            self._print(name, done, total)
        elif name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, completed=done)
        else:
            self._bars.update(self._bars.task_ids[self._tasks[name]], completed=done, total=total)

    def say(self, text: str) -> None:
        """Print a line without breaking the bars."""
        self._console.print(text, highlight=False, markup=False)

    def _print(self, name: str, done: int, total: int) -> None:
        step = max(1, total // LINES_PER_TASK)
        mark = done // step
        if self._printed.get(name) != mark or done == total:
            self._printed[name] = mark
            print(f"{name}: {done}/{total}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        if self._is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_terminal:
            self._bars.stop()
