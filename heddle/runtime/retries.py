"""Second tries: what a failed task may be sent again for, and how."""

import logging
from dataclasses import dataclass

from heddle.core.degradation import DegradationKind
from heddle.core.errors import (
    CONTEXT_LIMIT,
    TOO_LONG,
    DiskFull,
    EngineError,
    InputError,
    Unreachable,
)
from heddle.core.frames import Failed
from heddle.core.primitives import PrimitiveKind
from heddle.runtime.counters import Counters
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.request import PrimitiveRun
from heddle.runtime.suspects import Suspects
from heddle.runtime.task_table import TaskRun, TaskTable

log = logging.getLogger(__name__)

# Ingestion too: chunks that have their vector are skipped, so storing a batch twice is harmless.
# Likewise Priming: a chunk whose KV is stored is not computed again.
RETRYABLE = (
    PrimitiveKind.EMBEDDING,
    PrimitiveKind.SEARCHING,
    PrimitiveKind.RERANKING,
    PrimitiveKind.EXTRACTING,
    PrimitiveKind.INGESTION,
    PrimitiveKind.PRIMING,
)


@dataclass(slots=True)
class Retries:
    """Sends failed primitives again where the answer comes out the same.

    A generation that has shown tokens goes on behind them: they are the end of its next prompt.

    Args:
        retries_max: how often, for each primitive.
        tasks: where the rest of a failed try is cancelled.
        dispatcher: takes the next try.
        suspects: which requests may have ended lanes.
        counters: where retries are counted.

    Mutates: the failed runs and their requests' receipts.
    """

    retries_max: int
    tasks: TaskTable
    dispatcher: Dispatcher
    suspects: Suspects
    counters: Counters

    def retry(self, task: TaskRun, event: Failed, now_s: float) -> None:
        """Send what a task has failed at once more.

        Raises:
            InputError: the engine refused the input, or it has ended lanes.
            DiskFull: the disk had no room for the result.
            Unreachable: the corpus's database is away.
            EngineError: it may not be tried again, or not any more.
        """
        request, run = task.request, task.run
        if event.is_input:
            code = TOO_LONG if CONTEXT_LIMIT in event.message else ""
            raise InputError(f"node {run.primitive.node!r}: {event.message}", code=code)
        if event.is_full:
            raise DiskFull(f"{run.primitive.name}: {event.message}")
        if event.is_away:
            raise Unreachable(f"{run.primitive.name}: {event.message}")
        self.suspects.check_open(request, now_s)
        may_retry = run.retries < self.retries_max and now_s < request.deadline_s
        may_retry = may_retry and not event.is_final
        if may_retry and run.primitive.kind in RETRYABLE:
            self._count(task, event)
            self._retry_rows(task, now_s)
        elif may_retry and task.prefill is not None and _can_go_on(_decode_of(task)):
            self._count(task, event)
            self._retry_generation(task, now_s)
        else:
            raise EngineError(
                f"{run.primitive.name} failed: {event.message}",
                engine=task.lane.port.name,
                request_ids=(request.id,),
            )

    def _count(self, task: TaskRun, event: Failed) -> None:
        task.run.retries += 1
        task.request.receipt.retries += 1
        self.counters.retries += 1
        name = task.run.primitive.name
        note = f"{name} retried after: {event.message}"
        if task.prefill is not None and _decode_of(task).has_emitted:
            task.request.receipt.resumed += 1
            tokens = len(_decode_of(task).told)
            note = f"{name} went on behind {tokens} tokens after: {event.message}"
        task.request.receipt.degrade(DegradationKind.RETRY, note)
        log.info("request %d: %s", task.request.id, note)  # its receipt says so, too

    def _retry_rows(self, task: TaskRun, now_s: float) -> None:
        """Send the whole primitive again: rows that were answered before are asked for again."""
        request, run = task.request, task.run
        run.failed_on += (task.lane.port.name,)
        self.dispatcher.forget_rows(request, run)
        self.dispatcher.requeue(request, run, now_s)

    def _retry_generation(self, task: TaskRun, now_s: float) -> None:
        """Prefill and decode again, behind the tokens that were shown."""
        request, decode = task.request, _decode_of(task)
        prefill = decode.prefill
        assert prefill is not None, f"{decode.primitive.name!r} was sent without a prefill"
        prefill.failed_on += (task.lane.port.name,)
        if prefill.primitive.name not in request.runs:
            # One that had ended well runs again: its KV is gone with the decode. What a cycle pass
            # has made wait for it goes on since then.
            prefill.then.clear()
            request.runs[prefill.primitive.name] = prefill
        if decode.has_emitted:
            decode.written += tuple(decode.told)
        for half in (prefill, decode):
            self.tasks.detach(request, half)
            half.start_over()
        prefill.retries = decode.retries = max(prefill.retries, decode.retries, 1)
        decode.waits = 1
        self.dispatcher.requeue(request, prefill, now_s)


def _decode_of(task: TaskRun) -> PrimitiveRun:
    """Return the decode of a generation, either half of which has failed."""
    run = task.run
    if run.prefill is not None:
        return run
    assert run.plan.rider is not None, f"{run.primitive.name!r} has no decode"
    return task.request.runs[run.plan.rider]


def _can_go_on(decode: PrimitiveRun) -> bool:
    """Whether the next try can begin where the reader is: with nothing, or behind known tokens."""
    return bool(decode.told) or not decode.has_emitted
