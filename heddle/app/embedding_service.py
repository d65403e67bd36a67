"""The embedding service: texts in, vectors out, or refused at once."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from heddle.app.observe.server_state import EmbeddingLaneState, EmbeddingState
from heddle.app.observe.tally import Outcome, outcome_of
from heddle.core.errors import (
    Cancelled,
    DeadlineExceeded,
    EngineError,
    HeddleError,
    InputError,
    InternalError,
    Unreachable,
)
from heddle.core.frames import Done, Event, Failed
from heddle.core.payloads import EmbedPayload
from heddle.core.ports import Clock
from heddle.core.results import Vectors
from heddle.core.tasks import Priority
from heddle.engines.embedding.lane_pool import LanePool
from heddle.engines.embedding.lane_queue import LaneQueue


class Encoder(Protocol):
    """What the service must know of the model that embeds."""

    @property
    def name(self) -> str:
        """By which a corpus records it."""
        ...

    @property
    def max_tokens(self) -> int:
        """The longest text that it reads whole [tokens]."""
        ...

    @property
    def is_packaged(self) -> bool:
        """Whether it is the MiniLM that comes with Heddle, whose speed is roughly known."""
        ...

    def check_dims(self, dims: int) -> None:
        """Refuse a length that its vectors can't have.

        Raises:
            InputError: it is such a length.
        """
        ...


@dataclass(slots=True)
class EmbeddingService:
    """Embeds for callers outside workflows, through the lanes that workflows use.

    Args:
        pool: the lanes.
        directory: the model.
        give_back: cancels a task whose caller has cancelled its future; safe from any thread.
        clock: the pool's; an answer after its deadline counts as late.

    Mutates: `outcomes` counts how embeddings ended.
    """

    pool: LanePool
    directory: Encoder
    give_back: Callable[[int], None]
    clock: Clock
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    def state(self) -> EmbeddingState:
        """Return what was counted so far, and the lanes as the books have them."""
        manager = self.pool.manager
        lanes = {lane.name: _lane_state(lane) for lane in manager.lanes}
        return EmbeddingState(dict(self.outcomes), manager.held, lanes)

    def submit(
        self,
        payload: EmbedPayload,
        *,
        seconds_left: float,
        priority: Priority,
        tenant: str,
        dimensions: int | None,
        next_request: int,
    ) -> Future[Vectors]:
        """Start an embedding and return its future result; call it on the runtime's thread.

        Where lanes serve the oldest request first, it is as old as the next one, `next_request`.
        Cancelling the future frees the task's place, on a lane and while it waits for one.

        Raises:
            Busy: it would be late; carries when to come again.
            InputError: a length that the vectors can't have, or a deadline that is too short or
                no time at all.
        """
        answer: Future[Vectors] = Future()
        deadline_s = self.clock.now_s() + seconds_left
        tell = _answering(answer, dimensions)

        def on_end(event: Event) -> None:
            is_late = self.clock.now_s() > deadline_s
            self.outcomes[_outcome(event, is_late=is_late)] += 1
            tell(event, is_late)

        try:
            if not seconds_left > 0:
                raise InputError(f"deadline_s must be positive, got {seconds_left:g}")
            if dimensions is not None:
                self.directory.check_dims(dimensions)
            task_id = self.pool.submit(
                payload,
                on_end,
                seconds_left=seconds_left,
                priority=priority,
                tenant=tenant,
                next_request=next_request,
            )
        except HeddleError as error:
            self.outcomes[outcome_of(error)] += 1
            raise

        def ended(done: Future[Vectors]) -> None:
            if done.cancelled():
                self.give_back(task_id)

        answer.add_done_callback(ended)
        return answer


def _lane_state(lane: LaneQueue) -> EmbeddingLaneState:
    known = lane.cost
    return EmbeddingLaneState(
        queries=lane.queries,
        latency_intercept_s=known.cost.latency_intercept_s,
        token_s=known.cost.token_s,
        margin=known.margin,
        stretch=lane.guard.stretch,
        outlier_share=known.outlier_share,
        refits={reason.value: count for reason, count in known.refits.items()},
    )


def checked_texts(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts to embed.

    Raises:
        InputError: there is none, or something else than texts.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError("texts must be a list of strings")
    if not texts:
        raise InputError("there is nothing to embed: give at least one text")
    return tuple(texts)


def shortened(vectors: Vectors, dimensions: int) -> Vectors:
    """Return the first values of each vector, of length 1 again. (Matryoshka)

    Shapes: values [n, d] -> [n, dimensions].
    """
    values = vectors.values[:, :dimensions]
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return replace(vectors, values=values / np.maximum(lengths, np.finfo(np.float32).tiny))


def _outcome(event: Event, *, is_late: bool) -> Outcome:
    if not isinstance(event, Done):
        return outcome_of(_error(event, is_late=is_late))
    return Outcome.LATE if is_late else Outcome.ANSWERED


def _answering(answer: Future[Vectors], dimensions: int | None) -> Callable[[Event, bool], None]:
    def on_end(event: Event, is_late: bool) -> None:
        if not answer.set_running_or_notify_cancel():
            return  # the caller waits for it no more
        if isinstance(event, Done) and isinstance(event.result, Vectors):
            vectors = event.result
            answer.set_result(vectors if dimensions is None else shortened(vectors, dimensions))
        else:
            answer.set_exception(_error(event, is_late=is_late))

    return on_end


def _error(event: Event, *, is_late: bool) -> HeddleError:
    if isinstance(event, Failed):
        if event.is_input:
            return InputError(event.message)
        if event.is_away:
            return Unreachable(event.message)
        return EngineError(event.message, engine="embedding", request_ids=())
    if isinstance(event, Done):
        return InternalError(f"an embedding was answered by {type(event.result).__name__}")
    if is_late:
        return DeadlineExceeded("the embedding's deadline passed before a lane had answered")
    return Cancelled("the embedding was cancelled")
