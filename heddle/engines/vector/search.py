"""A search task from admission to its hits, over any kind of index. Pure."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heddle.core.counts import SearchCounts
from heddle.core.payloads import SearchPayload
from heddle.core.results import Hits, RankedHits, RecallEstimate
from heddle.core.tasks import Priority
from heddle.engines.vector.corpus.allowed import Allowed

TOPK_MAX = 65_536

SortedHits = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Distances [n, k], ascending, and labels [n, k]; (inf, -1) where there is no hit."""


@dataclass(slots=True, eq=False)
class RunningSearch(ABC):
    """One search task; its rows join the slots one by one as these become free.

    `revision` and `allowed` are settled when the search begins; `allowed` None = it may find every
    vector. `found` is what its rows have found, None before the first of them. `by_words` is set
    once the search by words has ended. `notes` says where the search runs degraded. `counts` is for
    its result. `steps` counts the steps that reported progress.
    """

    task_id: int
    payload: SearchPayload
    priority: Priority
    report_every: int
    notes: tuple[str, ...] = ()
    counts: SearchCounts = field(default_factory=SearchCounts)
    allowed: Allowed | None = None
    revision: int = 0
    rows_joined: int = 0
    rows_done: int = 0
    steps: int = 0
    found: SortedHits | None = None
    by_words: RankedHits | None = None
    rows: int = field(init=False)  # of its payload, which counts them anew each time

    def __post_init__(self) -> None:
        self.rows = self.payload.rows

    @property
    def rows_waiting(self) -> int:
        """Rows that have no slot yet."""
        return self.rows - self.rows_joined

    @property
    def is_done(self) -> bool:
        """Whether every row has its hits."""
        return self.rows_done == self.rows

    def note(self, words: str) -> None:
        """Say where the search runs degraded, once; "" = nothing."""
        if words and words not in self.notes:
            self.notes = (*self.notes, words)

    @abstractmethod
    def hits(self, notes: tuple[str, ...] = (), recall: RecallEstimate | None = None) -> Hits:
        """Return the final result, with the notes and the recall of its index."""

    def nothing(self) -> SortedHits:
        """Return what its rows have found before the first of them has ended."""
        shape = (self.rows, self.payload.topk)
        return np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)


def ascending(distances: NDArray[np.float32], labels: NDArray[np.int64]) -> SortedHits:
    """Return running heaps as sorted hits: by distance, ties by label, as FAISS orders them.

    Shapes: both [n, k]; entries without a hit are (inf, -1) and come last.
    """
    order = np.lexsort((labels, distances), axis=1)
    rows = np.arange(len(order))[:, None]
    return distances[rows, order], labels[rows, order]


def search_refusal(payload: SearchPayload) -> str | None:
    """Return why a search can't be carried out, or None."""
    queries = payload.queries
    if queries.ndim != 2 or queries.dtype.kind != "f":
        return f"queries: need floats [n, d], got {queries.dtype} {list(queries.shape)}"
    if not 1 <= payload.topk <= TOPK_MAX:
        return f"topk: need 1 to {TOPK_MAX}, got {payload.topk}"
    if payload.nprobe is not None and payload.nprobe < 1:
        return f"nprobe: need at least 1, got {payload.nprobe}"
    if not np.isfinite(queries).all():
        return "queries: contain NaN or infinite values; check what embedded them"
    return None


def dims_refusal(dims: int, index_dims: int | None) -> str | None:
    """Return why vectors of this length don't fit an index, or None; an empty one takes any."""
    if index_dims in (None, dims):
        return None
    return (
        f"vectors of {dims} dimensions don't fit an index of {index_dims}; "
        "use the embedder that the corpus was indexed with"
    )
