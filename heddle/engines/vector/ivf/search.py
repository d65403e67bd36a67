"""A search of inverted lists, from admission to its hits. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.core.frames import Progress
from heddle.core.results import Hits, RecallEstimate
from heddle.engines.vector.search import RunningSearch, SortedHits


@dataclass(slots=True, eq=False)
class IvfSearch(RunningSearch):
    """One search task over inverted lists.

    `nprobe` is settled when the search begins: asked for, or the index's default, and never more
    than its nlist. `lists_added` counts lists beyond that which a filter made necessary, over all
    rows. `counts` is of the rows that have finished. `may_stop`: the search may end before it has
    scanned all its lists. `rank` is by the engine's `CallOrder`.
    """

    request_id: int = 0
    rank: float = 0.0
    may_stop: bool = False
    nprobe: int | None = None
    lists_added: int = 0

    @property
    def has_begun(self) -> bool:
        """Whether it has settled on a revision and its lists."""
        return self.nprobe is not None

    @property
    def lists_probed(self) -> int:
        """Lists to scan over all rows; 0 before the search begins."""
        return self.rows * (self.nprobe or 0) + self.lists_added

    def finish_rows(self, rows: NDArray[np.int64], hits: SortedHits) -> None:
        """Take the hits of rows that have ended, [m, topk] each or more."""
        distances, labels = hits
        hits = distances[:, : self.payload.topk], labels[:, : self.payload.topk]
        self.rows_done += len(rows)
        if len(rows) == self.rows:
            self.found = hits
            return
        if self.found is None:
            self.found = self.nothing()
        self.found[0][rows], self.found[1][rows] = hits

    def hits(self, notes: tuple[str, ...] = (), recall: RecallEstimate | None = None) -> Hits:
        """Return the final result, with the notes and the recall of its index.

        Mutates: `counts`, which goes with the result.
        """
        distances, labels = self.found or self.nothing()
        self.counts.lists_probed = self.lists_probed
        return Hits(labels, distances, self.counts, self.revision, notes, self.by_words, recall)

    def progress(self, rows: NDArray[np.int64], hits: SortedHits, lists_scanned: int) -> Progress:
        """Return the hits so far: finished rows as they are, and `rows` with `hits`.

        `lists_scanned` counts the lists behind the latter.
        """
        distances, labels = self.found or self.nothing()
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
