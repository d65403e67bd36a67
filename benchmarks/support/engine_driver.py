"""Keeps an engine in this process busy with many tasks at once, without a server around it."""

import threading
from collections.abc import Iterator
from math import inf

from heddle.core.commands import Admit, Release
from heddle.core.errors import EngineError
from heddle.core.frames import Done, Failed
from heddle.core.payloads import Payload
from heddle.core.ports import SteppedEngine, Waking
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle, Result
from heddle.core.tasks import Identity, Optimizations, Task


class EngineDriver:
    """Sends tasks to an engine and steps it; results come as they are ready."""

    def __init__(self, engine: SteppedEngine) -> None:
        self._engine = engine
        self._next = 0
        self._woken = threading.Event()
        if isinstance(engine, Waking):
            engine.subscribe(self._woken.set)

    def send(
        self, kind: PrimitiveKind, payload: Payload, mode: Optimizations = Optimizations.OFF
    ) -> int:
        """Start a task and return its id."""
        task_id, self._next = self._next, self._next + 1
        task = Task(task_id, kind, Identity(task_id, "bench"), payload, optimizations=mode)
        self._engine.apply(Admit(task, report_every=0))
        return task_id

    def release(self, handle: KvHandle) -> None:
        """Give a prompt's KV back."""
        self._engine.apply(Release(handle))

    def step(self) -> Iterator[tuple[int, Result]]:
        """Step once, after a wait for loads where there is nothing else to do.

        Yields: the ids and results of the tasks that are done.
        Raises:
            EngineError: a task has failed; nothing here is worth going on with.
        """
        self._woken.clear()
        if not self._engine.has_work:
            self._woken.wait()
        for event in self._engine.step(0.0, inf).events:
            if isinstance(event, Failed):
                raise EngineError(event.message, engine=self._engine.name, request_ids=())
            if isinstance(event, Done):
                yield event.task_id, event.result

    def result_of(self, task_id: int) -> Result:
        """Step until a task is done; it has to be the only one."""
        while True:
            for done, result in self.step():
                assert done == task_id, "another task is under way"
                return result
