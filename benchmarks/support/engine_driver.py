"""Keeps an engine in this process busy with many tasks at once, without a server around it."""

import threading
from collections.abc import Iterator, Sequence
from math import inf
from time import perf_counter

from heddle.core.commands import Admit, Release
from heddle.core.errors import EngineError
from heddle.core.frames import Done, Failed, Progress
from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.core.payloads import DecodePayload, Payload, PrefillPayload, Sampling, Segment
from heddle.core.ports import SteppedEngine, Waking
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle, Prefilled, Result
from heddle.core.tasks import Identity, Optimizations, Task

Prompt = tuple[Segment, ...]


class EngineDriver:
    """Sends tasks to an engine and steps it; results come as they are ready."""

    def __init__(self, engine: SteppedEngine) -> None:
        self._engine = engine
        self._next = 0
        self._woken = threading.Event()
        if isinstance(engine, Waking):
            engine.subscribe(self._woken.set)

    def send(
        self,
        kind: PrimitiveKind,
        payload: Payload,
        mode: Optimizations = Optimizations.OFF,
        report_every: int = 0,
    ) -> int:
        """Start a task and return its id; it reports every `report_every` tokens, 0 = never."""
        task_id, self._next = self._next, self._next + 1
        task = Task(task_id, kind, Identity(task_id, "bench"), payload, optimizations=mode)
        self._engine.apply(Admit(task, report_every))
        return task_id

    def ask(
        self,
        prompt: Prompt,
        reuse: KvReuse,
        mode: Optimizations,
        answer_tokens: int,
    ) -> tuple[int, int]:
        """Start a prompt and its answer; return both ids. The answer reports each token."""
        payload = PrefillPayload(prompt, reuse=reuse)
        prefill = self.send(PrimitiveKind.PREFILLING, payload, mode)
        answer = DecodePayload(prefill, Sampling(answer_tokens, ignore_eos=True))
        return prefill, self.send(PrimitiveKind.DECODING, answer, mode, report_every=1)

    def first_token_s(
        self,
        prompt: Prompt,
        reuse: KvReuse = FULL_ATTENTION,
        mode: Optimizations = Optimizations.OFF,
    ) -> float:
        """Ask a prompt alone and return the seconds to its first token."""
        return self.first_token(prompt, reuse, mode)[0]

    def first_token(
        self,
        prompt: Prompt,
        reuse: KvReuse = FULL_ATTENTION,
        mode: Optimizations = Optimizations.OFF,
    ) -> tuple[float, Prefilled]:
        """Ask a prompt alone; return the seconds to its first token, and how it was computed."""
        [answered] = self.first_tokens([prompt], reuse, mode)
        return answered

    def first_tokens(
        self, prompts: Sequence[Prompt], reuse: KvReuse, mode: Optimizations
    ) -> list[tuple[float, Prefilled]]:
        """Ask prompts at once; return what `first_token` does, for each."""
        started_s = perf_counter()
        asked = [self.ask(prompt, reuse, mode, answer_tokens=1) for prompt in prompts]
        open_tasks = {task for both in asked for task in both}
        first_s: dict[int, float] = {}
        prefilled: dict[int, Prefilled] = {}
        while open_tasks:
            for task, result in self.step():
                if isinstance(result, Progress):
                    first_s.setdefault(task, perf_counter() - started_s)
                    continue
                open_tasks.discard(task)
                if isinstance(result, Prefilled):
                    self.release(result.handle)
                    prefilled[task] = result
        return [(first_s[answer], prefilled[prefill]) for prefill, answer in asked]

    def release(self, handle: KvHandle) -> None:
        """Give a prompt's KV back."""
        self._engine.apply(Release(handle))

    def step(self, wait_s_max: float | None = None) -> Iterator[tuple[int, Result | Progress]]:
        """Step once, after a wait for loads where there is nothing else to do.

        Args:
            wait_s_max: wait no longer; None = until something is there.
        Yields: the ids and results of the tasks that are done, and what tasks report before.
        Raises:
            EngineError: a task has failed; nothing here is worth going on with.
        """
        self._woken.clear()
        if not self._engine.has_work:
            self._woken.wait(wait_s_max)
        for event in self._engine.step(0.0, inf).events:
            if isinstance(event, Failed):
                raise EngineError(event.message, engine=self._engine.name, request_ids=())
            if isinstance(event, Progress):
                yield event.task_id, event
            if isinstance(event, Done):
                yield event.task_id, event.result

    def result_of(self, task_id: int) -> Result:
        """Step until a task is done; it has to be the only one."""
        while True:
            for done, result in self.step():
                assert done == task_id, "another task is under way"
                assert not isinstance(result, Progress), "nothing was to be reported"
                return result
