"""A graph search task from admission to its hits, and the slots of its rows. Pure."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heddle.core.frames import Progress
from heddle.core.payloads import SearchPayload
from heddle.core.results import Hits, RankedHits
from heddle.core.search_scope import EVERYBODYS
from heddle.core.tasks import Priority
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.graph.scheduler import TOPM_MAX
from heddle.engines.vector.search import SortedHits, search_refusal


@dataclass(slots=True, eq=False)
class GraphSearch:
    """One search task; `rows_of` names the row of each slot that it holds.

    `deadline_s` and `expected`, the extends that a row should need, are settled in the first step
    after it came, at `came_s`; `revision` and `allowed`, the chunks that it may find, when its
    first row gets a slot. `allowed` is None as long as that is all of them, those that come in
    meanwhile included. `found` is what its rows found, None before the first of them; `by_words`
    is there once it was looked for; `is_dropped` once it has ended. `notes` says what went another
    way than meant.
    Mutates: rows join and leave.
    """

    task_id: int
    payload: SearchPayload
    priority: Priority
    topm: int
    seconds_left: float
    report_every: int
    notes: tuple[str, ...] = ()
    came_s: float = 0.0
    deadline_s: float = math.inf
    expected: float = 0.0
    revision: int = 0
    rows_joined: int = 0
    rows_done: int = 0
    extends: int = 0
    steps: int = 0
    is_dropped: bool = False
    rows_of: dict[int, int] = field(default_factory=dict)
    found: SortedHits | None = None
    allowed: Allowed | None = None
    by_words: RankedHits | None = None
    rows: int = field(init=False)  # of its payload, which counts them anew each time

    def __post_init__(self) -> None:
        self.rows = self.payload.rows

    @property
    def urgency(self) -> tuple[int, float]:
        """What orders searches that have not begun: class, then deadline."""
        return self.priority, self.deadline_s

    @property
    def rows_waiting(self) -> int:
        """Rows that have no slot yet."""
        return self.rows - self.rows_joined

    @property
    def is_done(self) -> bool:
        """Whether every row has its hits."""
        return self.rows_done == self.rows

    def join(self, slots: list[int]) -> NDArray[np.float32]:
        """Give the next rows a slot each and return their queries, [m, d]."""
        first, last = self.rows_joined, self.rows_joined + len(slots)
        self.rows_of.update(zip(slots, range(first, last), strict=True))
        self.rows_joined = last
        return self.payload.queries[first:last]

    def note(self, slot: int, distances: NDArray[np.float32], labels: NDArray[np.int64]) -> None:
        """Take the k nearest that a slot's search has found so far, [k] each."""
        if self.rows == 1:
            self.found = distances[None], labels[None]
            return
        if self.found is None:
            self.found = self._nothing()
        row = self.rows_of[slot]
        self.found[0][row], self.found[1][row] = distances, labels

    def query_in(self, slot: int) -> NDArray[np.float32]:
        """Return the query of a slot's row, [1, d]."""
        row = self.rows_of[slot]
        return self.payload.queries[row : row + 1].astype(np.float32)

    def row_found(self, slot: int) -> SortedHits:
        """Return what a slot's row has found by its last note, [1, k] each."""
        assert self.found is not None, "a row was read before it was noted"
        row = slice(self.rows_of[slot], self.rows_of[slot] + 1)
        return self.found[0][row], self.found[1][row]

    def leave(self, slot: int) -> None:
        """Note that a slot's search has its hits."""
        del self.rows_of[slot]
        self.rows_done += 1

    def hits(self) -> Hits:
        """Return the final result."""
        distances, labels = self.found or self._nothing()
        return Hits(
            labels,
            distances,
            revision=self.revision,
            extends=self.extends,
            by_words=self.by_words,
        )

    def progress(self, fraction: float) -> Progress:
        """Return the hits so far."""
        distances, labels = self.found or self._nothing()
        return Progress(
            self.task_id, labels=labels.copy(), distances=distances.copy(), fraction=fraction
        )

    def _nothing(self) -> SortedHits:
        shape = (self.rows, self.payload.topk)
        return np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)


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
