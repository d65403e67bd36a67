"""What a corpus wrote since an index was, a piece at a time."""

from heddle.engines.vector.corpus.source import VectorBatch, VectorSource


class Replay:
    """Changes on their way into an index: all deletions, then the vectors in pieces.

    A document's new vectors carry the revision of its old ones' tombstones, so what replaces
    something deleted here is among the vectors, which are read after it.

    Args:
        source: the corpus.
        after_revision: what the index covers.
        piece_rows: vectors in a piece.
    """

    def __init__(self, source: VectorSource, after_revision: int, piece_rows: int) -> None:
        self.revision = source.revision
        self.deleted = source.deleted(after_revision)
        self.is_over = False
        self._batches = iter(source.vectors(after_revision, piece_rows))
        self._piece_rows = piece_rows

    def next_piece(self) -> VectorBatch | None:
        """Return more vectors, or None; `is_over` is set with the last: `revision` is covered."""
        batch = next(self._batches, None)
        # Only the last batch is shorter.
        self.is_over = batch is None or len(batch.chunk_ids) < self._piece_rows
        return batch
