"""From an engine's frames to the requests: lost and repeated ones, tokens, results, failures."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from heddle.core.commands import Cancel
from heddle.core.degradation import DegradationKind
from heddle.core.errors import EngineError
from heddle.core.frames import Done, Event, Failed, Frame, Progress
from heddle.core.ports import PassageSource, Tracer
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Extracted, Generated, Hits, Ingested, Prefilled, Reranked, Result
from heddle.graph.primitive import Config, ExtractConfig, RerankConfig, SearchConfig
from heddle.runtime.answer_keeping import note_rows
from heddle.runtime.counters import Counters
from heddle.runtime.events import TokenDelta
from heddle.runtime.folding import fold
from heddle.runtime.guess import note_ahead
from heddle.runtime.lane import Lane
from heddle.runtime.own_passages import OwnSource
from heddle.runtime.pipeline import Pipeline
from heddle.runtime.readiness import Readiness
from heddle.runtime.reading import fold_extracted, fold_reranked
from heddle.runtime.repeats import remember
from heddle.runtime.request import PrimitiveRun, Request
from heddle.runtime.request_table import RequestTable
from heddle.runtime.retries import Retries
from heddle.runtime.speculator import Speculator
from heddle.runtime.supervision import LANE_LOST
from heddle.runtime.task_table import TaskRun, TaskTable
from heddle.runtime.values import as_passages

log = logging.getLogger(__name__)


@dataclass(slots=True)
class FrameIntake:
    """Takes frames in, and hands each event to the request that its task belongs to.

    Args:
        tasks: what is in flight.
        requests: where a request ends that an event breaks.
        readiness: takes the values of primitives that are complete.
        pipeline: takes the items of lists that are not whole.
        retries: takes failures.
        speculator: takes what searches have found by now.
        passages: turns chunk ids into passages; None in simulations.
        counters: where frames are counted.
        tracers: hear of every step.

    Mutates: all of these, and the lanes.
    """

    tasks: TaskTable
    requests: RequestTable
    readiness: Readiness
    pipeline: Pipeline
    retries: Retries
    speculator: Speculator
    passages: PassageSource | None
    counters: Counters
    tracers: Sequence[Tracer]

    def read(self, lane: Lane, now_s: float) -> None:
        """Take in every frame that has arrived from a lane."""
        for frame in lane.port.frames():
            self._fold_frame(lane, frame, now_s)

    def _fold_frame(self, lane: Lane, frame: Frame, now_s: float) -> None:
        self.counters.frames += 1
        if frame.number and not self._is_next(lane, frame, now_s):
            self.counters.frames_dropped += 1
            return
        lane.last = frame
        prompt_tokens = frame.features.get("prefill_tokens", 0.0)
        lane.computed += prompt_tokens - frame.features.get("drafted_tokens", 0.0)
        lane.searches.step(frame)
        for tracer in self.tracers:
            tracer.step(frame, now_s - frame.age_s)
        rows_done = 0
        for event in frame.events:
            task = self.tasks.open.get(event.task_id)
            if task is None or task.lane is not lane:
                self.counters.events_dropped += 1
            elif isinstance(event, Progress):
                self._fold_progress(task, event, now_s)
            else:
                rows_done += _rows_of(task, event)
                self._end_task(event, now_s)
        lane.learn_work(frame.seconds, rows_done, now_s)

    def _is_next(self, lane: Lane, frame: Frame, now_s: float) -> bool:
        """Whether a numbered frame is new; what a lost one may have held is given up loudly."""
        epoch, number = lane.seen
        if (frame.epoch, frame.number) <= (epoch, number):
            return False
        lane.seen = frame.epoch, frame.number
        if frame.epoch != epoch:
            self._give_up_tasks(lane, frame.epoch - 1, now_s)
            number = 0
        if frame.number != number + 1:
            log.error("lane %s lost frames %d..%d", frame.lane, number + 1, frame.number - 1)
            self._give_up_tasks(lane, frame.epoch, now_s)
        return True

    def _give_up_tasks(self, lane: Lane, epoch_max: int, now_s: float) -> None:
        """Fail what was sent to a lane up to an epoch: its answer may be among lost frames."""
        message = f"{LANE_LOST} frames of lane {lane.port.name} were lost on the way"
        for task_id, task in sorted(self.tasks.open.items()):
            if task.lane is lane and task.epoch <= epoch_max:
                lane.port.send(Cancel(task_id))
                self._end_task(Failed(task_id, message), now_s)

    def _end_task(self, event: Event, now_s: float) -> None:
        task = self.tasks.end(event.task_id, now_s)
        note_ahead(task.run, event)
        if isinstance(event, Failed):
            others = (other.request for other in self.tasks.open.values())
            self.requests.suspects.witness(task.request, event.message, others, now_s)
        if not task.request.is_ended and not task.is_detached:
            self.requests.guard(task.request, now_s, self._use, task, event, now_s)

    def _use(self, task: TaskRun, event: Event, now_s: float) -> None:
        if isinstance(event, Done):
            self._use_result(task, event.result, now_s)
        elif isinstance(event, Failed) and task.run.primitive.kind is PrimitiveKind.ASKING:
            # Its prompt does without.
            note = f"{task.run.primitive.name}: {event.message}"
            task.request.receipt.degrade(DegradationKind.QUESTION_AHEAD, note)
            self.readiness.complete(task.request, task.run, None, now_s)
        elif isinstance(event, Failed):
            self.retries.retry(task, event, now_s)
        else:
            raise EngineError(
                f"gave task {event.task_id} up unasked",
                engine=task.lane.port.name,
                request_ids=(task.request.id,),
            )

    def _use_result(self, task: TaskRun, result: Result, now_s: float) -> None:
        request, run = task.request, task.run
        if isinstance(result, Prefilled):
            request.receipt.take_prompt(run.primitive.name, result, is_again=run.is_counted)
            run.is_counted = True
            run.parts[0] = result
            self.readiness.complete(request, run, None, now_s)
            return
        if isinstance(run.primitive.config, SearchConfig):
            task.lane.learn_stage(now_s - task.sent_s)
            if isinstance(result, Hits):
                task.lane.searches.ended(task.sent_s, result.counts.lists_scanned)
        assert run.payload is not None, f"{run.primitive.name!r} was answered before it was sent"
        run.parts[task.first_row] = result
        if isinstance(result, Ingested):
            run.rows_done += result.count
        else:
            run.rows_done += task.rows if run.plan.is_splittable else run.payload.rows
        if run.is_answered:
            self._complete(request, run, now_s)
        else:
            self.pipeline.feed(request, run, now_s)
            self.speculator.hear_rows(request, run, now_s)

    def _complete(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        """Write the value of a primitive, and those of readers that needed nothing but its end."""
        value = self._value(request, run)
        note_rows(request, run, value)
        self.readiness.complete(request, run, value, now_s)
        for name in run.plan.items_to:
            reader = request.runs.get(name)
            if reader is not None and reader.is_answered:
                self._complete(request, reader, now_s)

    def _value(self, request: Request, run: PrimitiveRun) -> object:
        """Return the value of a primitive that is answered."""
        config, node = run.primitive.config, run.primitive.node
        result = run.parts[0]
        if isinstance(result, Reranked) and isinstance(config, RerankConfig):
            return fold_reranked(result, config, request.store, node, request.receipt)
        if isinstance(result, Extracted) and isinstance(config, ExtractConfig):
            return fold_extracted(result, config, request.store, node, request.receipt)
        if isinstance(result, Generated) and not run.retries:
            remember(request, run, result)
        passages = self._source(request, config)
        return fold(run.primitive, run.parts, passages, request.receipt, request.tenant)

    def _source(self, request: Request, config: Config) -> PassageSource | None:
        """Return where what a search finds becomes passages: the corpus, or the request's own."""
        if not isinstance(config, SearchConfig) or config.within is None:
            return self.passages
        return OwnSource(as_passages(request.store.get(config.within.passages)))

    def _fold_progress(self, task: TaskRun, event: Progress, now_s: float) -> None:
        request = task.request
        if task.is_detached:
            note_ahead(task.run, event)
            return
        if request.is_ended:
            return
        if event.labels is not None:
            self.requests.guard(request, now_s, self.speculator.hear, task, event, now_s)
            return
        task.run.told.extend(event.token_ids)
        if event.text:
            task.run.has_emitted = True
            request.sink(TokenDelta(task.run.primitive.node, event.text))
            if task.run.plan.items_to:  # seldom, and this is done for every token
                self.requests.guard(
                    request, now_s, self.pipeline.hear, request, task.run, event.text, now_s
                )


def _rows_of(task: TaskRun, event: Event) -> int:
    """Return the rows of a task that has ended: its credits, but what is stored takes only one."""
    stored = event.result if isinstance(event, Done) else None
    return stored.count if isinstance(stored, Ingested) else task.rows
