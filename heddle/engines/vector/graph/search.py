"""A graph search task from admission to its hits, and the slots of its rows. Pure."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heddle.core.frames import Progress
from heddle.core.payloads import SearchPayload
from heddle.core.results import Hits
from heddle.core.tasks import Priority
from heddle.engines.vector.graph.scheduler import TOPM_MAX
from heddle.engines.vector.search import search_refusal


@dataclass(slots=True, eq=False)
class GraphSearch:
    """One search task; `rows_of` names the row of each slot that it holds.

    `deadline_s` is settled in the first step after it came; `is_dropped` once it has ended.
    Mutates: rows join and leave.
    """

    task_id: int
    payload: SearchPayload
    priority: Priority
    topm: int
    seconds_left: float
    report_every: int
    deadline_s: float | None = None
    rows_joined: int = 0
    rows_done: int = 0
    steps: int = 0
    is_dropped: bool = False
    rows_of: dict[int, int] = field(default_factory=dict)
    distances: NDArray[np.float32] = field(init=False)
    labels: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.payload.rows, self.payload.topk)
        self.distances = np.full(shape, np.inf, np.float32)
        self.labels = np.full(shape, -1, np.int64)

    @property
    def rows_waiting(self) -> int:
        """Rows that have no slot yet."""
        return self.payload.rows - self.rows_joined

    @property
    def is_done(self) -> bool:
        """Whether every row has its hits."""
        return self.rows_done == self.payload.rows

    def join(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Give the next rows a slot each and return their queries, [m, d]."""
        first, last = self.rows_joined, self.rows_joined + len(slots)
        self.rows_of.update(zip(slots.tolist(), range(first, last), strict=True))
        self.rows_joined = last
        return self.payload.queries[first:last]

    def note(self, slot: int, distances: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        """Take the k nearest that a slot's search has found so far, [k] each."""
        row = self.rows_of[slot]
        self.distances[row], self.labels[row] = distances, labels

    def leave(self, slot: int) -> None:
        """Note that a slot's search is over."""
        del self.rows_of[slot]
        self.rows_done += 1

    def hits(self, revision: int) -> Hits:
        """Return the final result."""
        return Hits(self.labels, self.distances, revision=revision)

    def progress(self, fraction: float) -> Progress:
        """Return the hits so far."""
        return Progress(
            self.task_id,
            labels=self.labels.copy(),
            distances=self.distances.copy(),
            fraction=fraction,
        )


def graph_refusal(payload: SearchPayload) -> str | None:
    """Return why a graph can't carry a search out, or None."""
    refusal = search_refusal(payload)
    if refusal is not None:
        return refusal
    if payload.topk > TOPM_MAX:
        return f"topk: a graph keeps at most {TOPM_MAX} candidates, got {payload.topk}"
    if payload.topm is not None and not 1 <= payload.topm <= TOPM_MAX:
        return f"topm: need 1 to {TOPM_MAX}, got {payload.topm}"
    return None
