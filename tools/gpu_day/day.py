"""A day: parts one after another, each in a process, until they or the time are over."""

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

from tools.gpu_day import child
from tools.gpu_day.child import Order
from tools.gpu_day.parts import Part
from tools.gpu_day.results import CUT, FAILED, LEFT, RUNNING, WHOLE, Results, source_digest

KEPT_S: Final = 8.0  # of the budget, to write what is left and to end
DIES_S: Final = 10.0  # in which a process that was killed is gone
SAID_LETTERS: Final = 3000  # of a failed part's log, its end
LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a day is to do.

    Args:
        parts: in the order of their worth.
        kind: of the place.
        folder: of the results.
        packed: a file that holds them all as well, after each part; None = no such file.
        budget_s: when the day ends [s]; None = when all parts are over.
        jobs: parts at once: on a GPU, they would disturb one another.
        again: measure what is whole already, too.
    """

    parts: Sequence[Part]
    kind: str
    folder: Path
    packed: Path | None
    budget_s: float | None
    jobs: int
    again: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a part; `is_kept`: it was whole before this day."""

    part: str
    state: str
    seconds: float
    problem: str
    is_kept: bool = False

    def line(self) -> str:
        """Return it as the day prints it."""
        words = f"{self.part:<28}{'kept' if self.is_kept else self.state:<8}{self.seconds:7.1f} s"
        return f"{words}  {self.problem}" if self.problem else words


@dataclass(slots=True)
class Running:
    """A part under way."""

    order: Order
    process: ForkServerProcess
    begun_s: float
    until_s: float


class Day:
    """Runs a plan; what has ended is in `outcomes`."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._begun_s = plan, time.perf_counter()
        self._results = Results(plan.folder)
        self._source = source_digest()
        self._running: list[Running] = []
        self._context = get_context("forkserver")
        self.outcomes: list[Outcome] = []

    def run(self) -> None:
        """Run every part for which there is time. Interrupted, it ends those under way."""
        self._context.set_forkserver_preload(list(child.IMPORTED))
        waiting = [part for part in self._plan.parts if not self._is_settled(part)]
        with tempfile.TemporaryDirectory(prefix="gpu-day-") as logs:
            try:
                while waiting or self._running:
                    while waiting and len(self._running) < self._plan.jobs:
                        self._begin(waiting.pop(0), Path(logs))
                    self._take_in()
            finally:  # interrupted: nothing is left running, and each result is finished
                for running in tuple(self._running):
                    self._end(running, CUT, "the day was interrupted")

    @property
    def left_s(self) -> float:
        """How much time there is [s]."""
        budget_s = self._plan.budget_s
        if budget_s is None:
            return float("inf")
        return budget_s - KEPT_S - (time.perf_counter() - self._begun_s)

    def _is_settled(self, part: Part) -> bool:
        """Whether a part needs no process: it is whole, or lacks a package."""
        if not self._plan.again and self._results.is_whole(part.name, self._plan.kind):
            seconds = float(self._results.read(part.name).get("seconds", 0.0))
            self._tell(Outcome(part.name, WHOLE, seconds, "", is_kept=True))
            return True
        if part.missing:
            problem = f"not installed: {', '.join(part.missing)}"
            self._tell(Outcome(part.name, FAILED, 0.0, problem))
            return True
        return False

    def _begin(self, part: Part, logs: Path) -> None:
        """Start a part, if it fits into what is left of the time."""
        plan, left_s = self._plan, self.left_s
        if part.usual_s > left_s:
            problem = f"{max(0.0, left_s):.0f} s were left, it takes about {part.usual_s:.0f}"
            self._tell(Outcome(part.name, LEFT, 0.0, problem))
            return
        log = logs / f"{part.name}.log"
        order = Order(part, plan.kind, plan.folder, log, self._source)
        self._results.write(part.name, child.first_result(order))
        process = self._context.Process(target=child.run, args=(order,), name=part.name)
        process.start()
        now_s = time.perf_counter()
        until_s = now_s + min(part.limit_s, left_s)
        self._running.append(Running(order, process, now_s, until_s))

    def _take_in(self) -> None:
        """Wait for a part's end, or for the end of its time."""
        next_s = min((running.until_s for running in self._running), default=0.0)
        timeout_s = min(LOOK_S, max(0.0, next_s - time.perf_counter()))
        wait([running.process.sentinel for running in self._running], timeout_s)
        self._pack()
        for running in tuple(self._running):
            if not running.process.is_alive():
                self._end(running, FAILED, f"its process ended with {running.process.exitcode}")
            elif time.perf_counter() >= running.until_s:
                allowed_s = running.until_s - running.begun_s
                self._end(running, CUT, f"ended by force after {allowed_s:.0f} s")

    def _end(self, running: Running, state: str, problem: str) -> None:
        """End what is left of a part; `state` and `problem` are for one that didn't say itself."""
        self._running.remove(running)
        process = running.process
        assert process.pid is not None, "it was started"
        for end in (lambda pid: os.killpg(pid, signal.SIGKILL), lambda pid: process.kill()):
            with suppress(ProcessLookupError, PermissionError):
                end(process.pid)
        process.join(DIES_S)
        part = running.order.part.name
        result = self._results.read(part) or child.first_result(running.order)
        if result["state"] == RUNNING:
            result |= {"state": state, "problem": problem}
            result["seconds"] = round(time.perf_counter() - running.begun_s, 2)
        if result["state"] != WHOLE:
            result["said"] = _end_of(running.order.log)
        self._results.write(part, result)
        self._tell(Outcome(part, result["state"], result["seconds"], result["problem"]))

    def _tell(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        print(outcome.line(), flush=True)
        self._pack()

    def _pack(self) -> None:
        """Write all results into the one file, also rows of parts under way."""
        if self._plan.packed is not None:
            self._results.pack([part.name for part in self._plan.parts], self._plan.packed)


def _end_of(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")[-SAID_LETTERS:]
    except OSError:
        return ""
