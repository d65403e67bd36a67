"""Chunks get their vectors: batches of them as requests on the runtime."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

from heddle.app.batch import Patience, submit_patiently
from heddle.core.passages import embedding_text
from heddle.core.tasks import Priority
from heddle.corpus.records import PendingChunk
from heddle.runtime.handle import Handle
from heddle.workflow.indexing import indexing_workflow

BATCH_ROWS: Final = 64
BATCHES_IN_FLIGHT: Final = 6  # the embedding lane never waits, and memory stays bounded
BATCH_DEADLINE_S: Final = 3600.0


class EmbeddingServer(Protocol):
    """What embedding chunks needs of a server (heddle.app.server.Server)."""

    def submit(self, *request: Any, **how: Any) -> Handle:  # noqa: ANN401
        """Admit a request (a workflow and its inputs); see Server.submit."""
        ...


class Embedded(NamedTuple):
    """How many chunks got their vectors; some were cut to the embedder's length, or windowed."""

    chunks: int = 0
    truncated: int = 0
    windowed: int = 0


def embed_batches(
    server: EmbeddingServer,
    batches: Iterable[tuple[PendingChunk, ...]],
    priority: Priority,
    on_chunks: Callable[[int], None] = lambda done: None,
) -> Embedded:
    """Embed and store chunks, some batches at once.

    Args:
        server: embeds the batches.
        batches: the chunks.
        priority: of the requests.
        on_chunks: called with the number of chunks that have their vectors.

    Raises:
        Busy, EngineError: a batch failed; vectors that are stored already stay.
    """
    workflow, done = indexing_workflow(), Embedded()
    in_flight: deque[tuple[Handle, int]] = deque()

    def submit(inputs: object) -> Handle:
        return server.submit(workflow, inputs, priority=priority, deadline_s=BATCH_DEADLINE_S)

    for batch in batches:
        if len(in_flight) == BATCHES_IN_FLIGHT:
            done = _wait(in_flight, done)
            on_chunks(done.chunks)
        handles = [handle for handle, _ in in_flight]
        handle = submit_patiently(submit, _inputs(batch), handles, Patience(BATCH_DEADLINE_S))
        in_flight.append((handle, len(batch)))
    while in_flight:
        done = _wait(in_flight, done)
        on_chunks(done.chunks)
    return done


def _inputs(batch: tuple[PendingChunk, ...]) -> dict[str, object]:
    return {
        "texts": tuple(embedding_text(chunk.title, chunk.text) for chunk in batch),
        "chunk_ids": tuple(chunk.chunk_id for chunk in batch),
    }


def _wait(in_flight: deque[tuple[Handle, int]], done: Embedded) -> Embedded:
    """Wait for the oldest batch, and return what is done with it."""
    handle, rows = in_flight.popleft()
    receipt = handle.result().receipt
    return Embedded(
        done.chunks + rows,
        done.truncated + receipt.texts_truncated,
        done.windowed + receipt.texts_windowed,
    )
