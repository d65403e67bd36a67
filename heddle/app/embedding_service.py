"""The embedding service: texts in, vectors out, or refused at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np

from heddle.core.errors import Cancelled, EngineError, HeddleError, InputError, InternalError
from heddle.core.frames import Done, Event, Failed
from heddle.core.payloads import EmbedPayload
from heddle.core.results import Vectors
from heddle.core.tasks import Priority
from heddle.engines.embedding.encoder_directory import EncoderDirectory
from heddle.engines.embedding.lane_pool import LanePool
from heddle.engines.embedding.lane_queue import LaneQueue


@dataclass(slots=True)
class EmbeddingService:
    """Embeds for callers outside workflows, through the lanes that workflows use.

    Args:
        pool: the lanes.
        directory: the model.
        give_back: cancels a task whose caller has cancelled its future, from whatever thread.
    """

    pool: LanePool
    directory: EncoderDirectory
    give_back: Callable[[int], None]

    def health(self) -> dict[str, object]:
        """Return what each lane holds and costs, as /health shows it."""
        return {lane.name: _lane_health(lane) for lane in self.pool.manager.lanes}

    def submit(
        self,
        payload: EmbedPayload,
        *,
        seconds_left: float,
        priority: Priority,
        tenant: str,
        dimensions: int | None,
    ) -> Future[Vectors]:
        """Start an embedding and return its future result; call it on the runtime's thread.

        Cancelling the future frees the task's place, on a lane and while it waits for one.

        Raises:
            Busy: it would be late; carries when to come again.
            InputError: a length that the vectors can't have, or too short a deadline.
        """
        if dimensions is not None:
            self.directory.check_dims(dimensions)
        answer: Future[Vectors] = Future()
        task_id = self.pool.submit(
            payload,
            _answering(answer, dimensions),
            seconds_left=seconds_left,
            priority=priority,
            tenant=tenant,
        )

        def ended(done: Future[Vectors]) -> None:
            if done.cancelled():
                self.give_back(task_id)

        answer.add_done_callback(ended)
        return answer


def _lane_health(lane: LaneQueue) -> dict[str, object]:
    known = lane.cost
    return {
        "queries": lane.queries,
        "latency_intercept_s": known.cost.latency_intercept_s,
        "token_s": known.cost.token_s,
        "margin": known.margin,
        "stretch": lane.guard.stretch,
        "outlier_share": known.outlier_share,
        "refits": {reason.value: count for reason, count in known.refits.items()},
    }


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


def _answering(answer: Future[Vectors], dimensions: int | None) -> Callable[[Event], None]:
    def on_end(event: Event) -> None:
        if not answer.set_running_or_notify_cancel():
            return  # nobody waits for it any more
        if isinstance(event, Done) and isinstance(event.result, Vectors):
            vectors = event.result
            answer.set_result(vectors if dimensions is None else shortened(vectors, dimensions))
        else:
            answer.set_exception(_error(event))

    return on_end


def _error(event: Event) -> HeddleError:
    if isinstance(event, Failed):
        if event.is_input:
            return InputError(event.message)
        return EngineError(event.message, engine="embedding", request_ids=())
    if isinstance(event, Done):
        return InternalError(f"an embedding was answered by {type(event.result).__name__}")
    return Cancelled("the embedding was cancelled")
