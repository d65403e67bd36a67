"""Vectors in half precision by row number: what decides the order of an index's candidates."""

from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InputError
from heddle.core.files.file_memory import file_memory
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.kernels.scan_kernels import row_distances, rows_to_compare
from heddle.engines.vector.recall.exact_index import Piece

PIECE_VECTORS: Final = 8192  # that a query is compared with at once, exactly
PASSED_FOR_ONE: Final = 32  # vectors passed over in the time that one is compared
FORGOTTEN = -1  # the chunk id of a row whose chunk was deleted
ROWS_FIRST = 1024
T = TypeVar("T", bound=np.generic)


class RefineStore:
    """Chunk ids and float16 vectors: rows of a file, and later ones.

    A row keeps its number until the index is built again. The file holds the ids of all rows
    [n] int64, then their vectors [n, d] float16.

    Args:
        chunk_ids: of the mapped rows, [n].
        mapped: their vectors as the bits of float16, [n, d] uint16.
        rows_to_come: later ones for which there is room at once.
    """

    def __init__(
        self,
        chunk_ids: NDArray[np.int64],
        mapped: NDArray[np.uint16],
        rows_to_come: int = ROWS_FIRST,
    ) -> None:
        self.rows = len(chunk_ids)
        self._chunk_ids = chunk_ids
        self._mapped = mapped
        self._added = np.zeros((rows_to_come, mapped.shape[1]), np.uint16)

    @classmethod
    def empty(cls, dims: int, rows_to_come: int = ROWS_FIRST) -> "RefineStore":
        """Return a store without rows, with room for some: growing takes as much again."""
        return cls(np.zeros(0, np.int64), np.zeros((0, dims), np.uint16), rows_to_come)

    @classmethod
    def open(cls, path: Path, dims: int) -> "RefineStore":
        """Open a file that `write` has made: in huge pages, or mapped (`file_memory`).

        Raises:
            InputError: it is no whole number of rows.
        """
        rows, rest = divmod(path.stat().st_size, 8 + 2 * dims)
        if rest or not rows:
            raise InputError(f"{path.name} is no store of {dims}-d vectors")
        memory = file_memory(path)
        chunk_ids = np.frombuffer(memory, np.int64, rows)
        vectors = np.frombuffer(memory, np.uint16, rows * dims, 8 * rows).reshape(rows, dims)
        return cls(chunk_ids.copy(), vectors)

    def write(self, path: Path) -> None:
        """Write all rows into a file; the caller makes it durable."""
        with path.open("wb") as file:
            self._chunk_ids[: self.rows].tofile(file)
            self._mapped.tofile(file)
            self._added[: self.rows - len(self._mapped)].tofile(file)

    def append(
        self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        """Store vectors in new rows; return these, [m]. Shapes: chunk_ids [m]; vectors [m, d]."""
        first, last = self.rows, self.rows + len(chunk_ids)
        self._chunk_ids = _grown(self._chunk_ids, last)
        self._added = _grown(self._added, last - len(self._mapped))
        self._chunk_ids[first:last] = chunk_ids
        added = slice(first - len(self._mapped), last - len(self._mapped))
        self._added[added] = vectors.astype(np.float16).view(np.uint16)
        self.rows = last
        return np.arange(first, last)

    def rows_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that these chunks have, [m]; unknown ones have none."""
        return np.flatnonzero(np.isin(self._chunk_ids[: self.rows], chunk_ids))

    def forget(self, rows: NDArray[np.int64]) -> None:
        """Take the chunks out of these rows; their vectors stay until the next build."""
        self._chunk_ids[rows] = FORGOTTEN

    def chunk_ids_at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chunks of rows, -1 for row -1; any shape."""
        return np.where(rows < 0, -1, self._chunk_ids[rows])

    def distances(
        self, queries: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return each query's squared L2 to its rows, inf for row -1.

        Shapes: queries [n, d]; rows and the answer [n, r].
        """
        found = np.empty(rows.shape, np.float32)
        row_distances(self._mapped, self._added, rows, queries, found)
        return found

    def compare_piece(
        self,
        query: NDArray[np.float32],
        first: int,
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> Piece:
        """Compare a query with the next rows exactly; updates its k nearest chunks in place.

        Of these chunks only, where `allowed` is there. To pass over others counts as well.

        Shapes: query [1, d]; distances and labels [1, k], from (inf, -1) on, in any order.
        """
        rows = np.empty(PIECE_VECTORS, np.int64)
        bits = np.zeros(0, np.uint8) if allowed is None else allowed.bits
        stop = min(first + PASSED_FOR_ONE * PIECE_VECTORS, self.rows)
        count, following = rows_to_compare(self._chunk_ids, bits, first, stop, rows)
        rows = rows[None, :count]
        both = np.hstack([distances, self.distances(query, rows)])
        both_labels = np.hstack([labels, self._chunk_ids[rows]])
        kept = np.argpartition(both, distances.shape[1] - 1, axis=1)[:, : distances.shape[1]]
        distances[:] = np.take_along_axis(both, kept, axis=1)
        labels[:] = np.take_along_axis(both_labels, kept, axis=1)
        passed = following - first - count
        is_over = following >= self.rows
        return Piece(0 if is_over else following, count + passed // PASSED_FOR_ONE)


def _grown(values: NDArray[T], rows: int) -> NDArray[T]:
    """Return an array with room for that many rows, at least doubled where it has to grow."""
    if rows <= len(values):
        return values
    more = max(rows, 2 * len(values)) - len(values)
    return np.concatenate([values, np.zeros((more, *values.shape[1:]), values.dtype)])
