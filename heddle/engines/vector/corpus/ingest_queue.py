"""Ingestions that wait for their turn. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from heddle.core.payloads import IngestPayload
from heddle.core.tasks import Priority

INGEST_STEPS_MAX = 8  # steps in which an ingestion lets more urgent searches go first


@dataclass(slots=True, eq=False)
class WaitingIngest:
    """An ingestion that has not been stored yet."""

    task_id: int
    payload: IngestPayload
    priority: Priority
    steps_waited: int = 0


class IngestQueue:
    """Ingestions by class, then arrival."""

    def __init__(self) -> None:
        self._by_task: dict[int, WaitingIngest] = {}

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._by_task)

    def __contains__(self, task_id: int) -> bool:
        """Return whether a task waits here."""
        return task_id in self._by_task

    @property
    def rows(self) -> int:
        """Vectors that wait."""
        return sum(ingest.payload.rows for ingest in self._by_task.values())

    @property
    def rows_of_largest(self) -> int:
        """Vectors of the largest that waits, 0 without any."""
        return max((ingest.payload.rows for ingest in self._by_task.values()), default=0)

    def add(self, ingest: WaitingIngest) -> None:
        """Queue it behind those of its class."""
        self._by_task[ingest.task_id] = ingest

    def remove(self, task_id: int) -> bool:
        """Forget a task; return whether it waited here."""
        return self._by_task.pop(task_id, None) is not None

    def prioritise(self, task_id: int, priority: Priority) -> None:
        """Move a task to another class; its arrival still counts."""
        if task_id in self._by_task:
            self._by_task[task_id].priority = priority

    def next(self, searching: Iterable[Priority]) -> WaitingIngest | None:
        """Return what to store in this step, or None to let more urgent searches go first.

        Args:
            searching: the classes of the searches under way.

        Mutates: counts how long the first has waited.
        """
        if not self._by_task:
            return None
        ingest = min(self._by_task.values(), key=lambda ingest: ingest.priority.value)
        ingest.steps_waited += 1
        is_patient = ingest.steps_waited <= INGEST_STEPS_MAX
        if is_patient and any(other.value < ingest.priority.value for other in searching):
            return None
        return ingest


def ingest_refusal(payload: IngestPayload) -> str | None:
    """Return why vectors can't be stored, or None."""
    vectors = payload.vectors
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        return f"vectors: need floats [n, d], got {vectors.dtype} {list(vectors.shape)}"
    if payload.chunk_ids.shape != vectors.shape[:1]:
        return f"vectors: {len(vectors)} rows for {payload.chunk_ids.size} chunk ids"
    if not np.isfinite(vectors).all():
        return "vectors: contain NaN or infinite values; check what embedded them"
    ids, counts = np.unique(payload.chunk_ids, return_counts=True)
    if counts.max(initial=1) > 1:
        return f"chunk_ids: {ids[counts.argmax()]} is there {counts.max()} times; give each once"
    return None
