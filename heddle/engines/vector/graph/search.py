"""A graph search task from admission to its hits, and the slots of its rows. Pure."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heddle.core.frames import Progress
from heddle.core.payloads import SearchPayload
from heddle.core.results import Hits, RecallEstimate
from heddle.core.search_scope import EVERYBODYS
from heddle.engines.vector.graph.scheduler import TOPM, TOPM_MAX
from heddle.engines.vector.search import RunningSearch, SortedHits, search_refusal


@dataclass(slots=True, eq=False)
class GraphSearch(RunningSearch):
    """One search task over a graph; `rows_of` names the row of each slot that it holds.

    `topm` candidates are kept for each row. `deadline_s` and `expected`, the extends that a row
    should need, are settled in the first step after it came, at `came_s`. `allowed` is None as long
    as all chunks may be found, those that come in meanwhile included. `is_dropped`: it has ended.
    Mutates: rows join and leave.
    """

    topm: int = TOPM
    seconds_left: float = math.inf
    came_s: float = 0.0
    deadline_s: float = math.inf
    expected: float = 0.0
    is_dropped: bool = False
    rows_of: dict[int, int] = field(default_factory=dict)

    @property
    def urgency(self) -> tuple[int, float]:
        """What orders searches that have not begun: class, then deadline."""
        return self.priority, self.deadline_s

    def join(self, slots: list[int]) -> NDArray[np.float32]:
        """Give the next rows a slot each and return their queries, [m, d] float32."""
        first, last = self.rows_joined, self.rows_joined + len(slots)
        self.rows_of.update(zip(slots, range(first, last), strict=True))
        self.rows_joined = last
        return self.payload.queries[first:last].astype(np.float32, copy=False)

    def take(self, slot: int, distances: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        """Take the k nearest that a slot's search has found so far, [k] each."""
        if self.rows == 1:
            self.found = distances[None], labels[None]
            return
        if self.found is None:
            self.found = self.nothing()
        row = self.rows_of[slot]
        self.found[0][row], self.found[1][row] = distances, labels

    def query_in(self, slot: int) -> NDArray[np.float32]:
        """Return the query of a slot's row, [1, d]."""
        row = self.rows_of[slot]
        return self.payload.queries[row : row + 1].astype(np.float32)

    def row_found(self, slot: int) -> SortedHits:
        """Return what a slot's row had found at its last `take`, [1, k] each."""
        assert self.found is not None, "a row was read before it was taken"
        row = slice(self.rows_of[slot], self.rows_of[slot] + 1)
        return self.found[0][row], self.found[1][row]

    def is_short(self, labels: NDArray[np.int64], count: int) -> bool:
        """Whether a row found fewer hits than it wants and there are, of `count` vectors."""
        there = count if self.allowed is None else self.allowed.count
        return int(np.count_nonzero(labels >= 0)) < min(self.payload.topk, there)

    def leave(self, slot: int) -> None:
        """Note that a slot's search has its hits."""
        del self.rows_of[slot]
        self.rows_done += 1

    def hits(self, notes: tuple[str, ...] = (), recall: RecallEstimate | None = None) -> Hits:
        """Return the final result, with the notes and the recall of its index."""
        distances, labels = self.found or self.nothing()
        return Hits(labels, distances, self.counts, self.revision, notes, self.by_words, recall)

    def progress(self, fraction: float) -> Progress:
        """Return the hits so far."""
        distances, labels = self.found or self.nothing()
        return Progress(
            self.task_id, labels=labels.copy(), distances=distances.copy(), fraction=fraction
        )


def graph_refusal(payload: SearchPayload, *, follows: bool) -> str | None:
    """Return why a graph can't carry a search out, or None; `follows`: there is a corpus behind."""
    refusal = search_refusal(payload)
    if refusal is not None:
        return refusal
    if payload.words is not None and not follows:
        return "words: this graph was opened without a corpus, which has the texts"
    if payload.scope != EVERYBODYS and not follows:
        return "scope: only a graph over a corpus knows what a search may find"
    if payload.topk > TOPM_MAX:
        return f"topk: a graph keeps at most {TOPM_MAX} candidates, got {payload.topk}"
    if payload.topm is not None and not 1 <= payload.topm <= TOPM_MAX:
        return f"topm: need 1 to {TOPM_MAX}, got {payload.topm}"
    return None
