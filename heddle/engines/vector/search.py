"""A search task from admission to its hits. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.core.frames import Progress
from heddle.core.payloads import SearchPayload
from heddle.core.results import Hits, RankedHits
from heddle.core.tasks import Priority
from heddle.engines.vector.corpus.allowed import Allowed

TOPK_MAX = 65_536

SortedHits = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Distances [n, k], ascending, and labels [n, k]; (inf, -1) where there is no hit."""


@dataclass(slots=True, eq=False)
class RunningSearch:
    """One search task; its rows join the slots one by one as these come free.

    `nprobe` is settled when the first row joins: asked for, or the index's default, and never
    more than its nlist; `lists_added` are those scanned besides for want of hits, over all rows;
    finished rows have scanned `lists_scanned`, a device `lists_on_device` of them, and
    `hits_cached` of their hits an earlier search of the request had found. `may_stop`: it may find
    less than all its clusters hold. `notes` says what went another way than meant.
    `allowed` is settled then, too: None = everything may be found. `found` is what finished rows
    found, None before the first of them. `by_words` is there once it was looked for.
    """

    task_id: int
    payload: SearchPayload
    priority: Priority
    report_every: int
    request_id: int = 0
    may_stop: bool = False
    nprobe: int | None = None
    lists_added: int = 0
    lists_scanned: int = 0
    lists_on_device: int = 0
    allowed: Allowed | None = None
    revision: int = 0
    rows_joined: int = 0
    rows_done: int = 0
    steps: int = 0
    found: SortedHits | None = None
    by_words: RankedHits | None = None
    hits_cached: int = 0
    notes: tuple[str, ...] = ()

    @property
    def has_begun(self) -> bool:
        """Whether it has settled on a revision and its clusters."""
        return self.nprobe is not None

    @property
    def rows_waiting(self) -> int:
        """Rows that have no slot yet."""
        return self.payload.rows - self.rows_joined

    @property
    def is_done(self) -> bool:
        """Whether every row has its hits."""
        return self.rows_done == self.payload.rows

    @property
    def lists_probed(self) -> int:
        """Clusters to scan over all rows; 0 while nothing has started."""
        return self.payload.rows * (self.nprobe or 0) + self.lists_added

    def note(self, words: str) -> None:
        """Say what went another way than meant; "" = nothing."""
        if words and words not in self.notes:
            self.notes = (*self.notes, words)

    def finish_rows(self, rows: NDArray[np.int64], hits: SortedHits) -> None:
        """Take the hits of rows that have ended, [m, topk] each or more."""
        distances, labels = hits
        hits = distances[:, : self.payload.topk], labels[:, : self.payload.topk]
        self.rows_done += len(rows)
        if len(rows) == self.payload.rows:
            self.found = hits
            return
        if self.found is None:
            self.found = self._nothing()
        self.found[0][rows], self.found[1][rows] = hits

    def hits(self) -> Hits:
        """Return the final result."""
        distances, labels = self.found or self._nothing()
        return Hits(
            labels,
            distances,
            self.lists_scanned,
            self.lists_probed,
            self.revision,
            lists_on_device=self.lists_on_device,
            hits_cached=self.hits_cached,
        )

    def progress(self, rows: NDArray[np.int64], hits: SortedHits, lists_scanned: int) -> Progress:
        """Return the hits so far: finished rows as they are, and `rows` with theirs.

        `lists_scanned` counts the lists behind the latter.
        """
        distances, labels = self.found or self._nothing()
        distances, labels = distances.copy(), labels.copy()
        topk = self.payload.topk
        distances[rows], labels[rows] = hits[0][:, :topk], hits[1][:, :topk]
        scanned = lists_scanned + self.rows_done * (self.nprobe or 0)
        return Progress(
            self.task_id,
            labels=labels,
            distances=distances,
            fraction=scanned / self.lists_probed,
        )

    def _nothing(self) -> SortedHits:
        shape = (self.payload.rows, self.payload.topk)
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
