"""Engines whose every task is answered as a whole: embedding and ranking by other servers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from heddle.core.commands import Admit, Cancel, Command
from heddle.core.credits import Credits
from heddle.core.frames import Cancelled, Done, Failed, Frame
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Result
from heddle.core.tasks import Task
from heddle.engines.remote.outlet import EPOCH, Outlet
from heddle.engines.remote.problem import RemoteProblem
from heddle.engines.remote.step_size import StepSize

log = logging.getLogger(__name__)


class Work(NamedTuple):
    """What an engine of this kind is made of.

    Args:
        answer: returns a task's result; the second argument is its deadline on the clock [s].
        notes: returns where the engine runs degraded, in words.
        close: hangs up every connection.
    """

    answer: Callable[[Task, float], Awaitable[tuple[Result, int]]]
    notes: Callable[[], tuple[str, ...]]
    close: Callable[[], None]


class CallPort:
    """EnginePort whose tasks are calls to other servers.

    Args:
        name: the engine's, as the runtime sees it.
        kind: of the primitives that it carries out.
        rows: that it may hold at once.
        work: answers the tasks; `answer` returns the result and the tokens that were read for it.
        clock: the time of deadlines.
        loop: where requests run; its thread is not the runtime's.
        size: how much is sent at once; None = a task is never cut.
    """

    def __init__(
        self,
        name: str,
        kind: PrimitiveKind,
        rows: int,
        work: Work,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        size: StepSize | None = None,
    ) -> None:
        self._size = size
        self._kinds = frozenset({kind})
        self._credits = Credits(rows)
        self._work = work
        self._clock = clock
        self._loop = loop
        self._outlet = Outlet(name, loop, work.notes)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._is_closed = False

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._outlet.name

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The one kind of primitive."""
        return self._kinds

    @property
    def credits(self) -> Credits:
        """Rows that it may hold at once."""
        return self._credits

    @property
    def epoch(self) -> int:
        """Always 1."""
        return EPOCH

    def send(self, command: Command) -> None:
        """Queue a command; called by the runtime's thread."""
        match command:
            case Admit(task=task):
                self._outlet.open.add(task.task_id)
                deadline_s = self._clock.now_s() + task.seconds_left
                self._loop.call_soon_threadsafe(self._start, task, deadline_s)
            case Cancel(task_id=task_id):
                self._loop.call_soon_threadsafe(self._cancel, task_id)
            case _:
                pass  # a call can't be steered

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived, oldest first."""
        return self._outlet.frames()

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from the loop's thread, whenever frames have arrived."""
        self._outlet.wake = wake

    def close(self) -> None:
        """Hang up, and fail what is under way; called on the loop's thread."""
        self._is_closed = True
        for task in self._running.values():
            task.cancel()
        self._work.close()
        for task_id in sorted(self._outlet.open):
            self._outlet.tell(Failed(task_id, f"engine {self.name} was closed", is_final=True))
        self._outlet.flush()

    def _start(self, task: Task, deadline_s: float) -> None:
        if not self._is_closed:
            self._running[task.task_id] = self._loop.create_task(self._run(task, deadline_s))

    async def _run(self, task: Task, deadline_s: float) -> None:
        task_id, started_s = task.task_id, self._clock.now_s()
        try:
            result, tokens = await self._work.answer(task, deadline_s)
        except RemoteProblem as problem:
            failed = Failed(task_id, problem.words, problem.is_callers, is_final=True)
            self._outlet.tell(failed)
        except asyncio.CancelledError:
            pass  # told by what cancelled it
        except Exception as error:
            log.exception("engine %s: a call broke an invariant", self.name)
            message = f"a call broke an invariant: {type(error).__name__}"
            self._outlet.tell(Failed(task_id, message, is_final=True))
        else:
            seconds = self._clock.now_s() - started_s
            if self._size is not None:
                self._size.learn(tokens, seconds)
            self._outlet.measure(tokens, seconds, self._size.tokens if self._size else 0)
            self._outlet.tell(Done(task_id, result))
        finally:
            self._running.pop(task_id, None)

    def _cancel(self, task_id: int) -> None:
        running = self._running.pop(task_id, None)
        if running is not None:
            running.cancel()
        self._outlet.tell(Cancelled(task_id))
