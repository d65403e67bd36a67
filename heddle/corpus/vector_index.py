"""An index of the vectors inside the database of a corpus, where that can have one."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.search_scope import SearchScope

OnRows = Callable[[int, int], None]
"""Hears how many vectors of how many are in the index."""


class VectorIndexKind(Enum):
    """How pgvector keeps the vectors; `half` = as float16, in about half the room."""

    HNSW = "hnsw"  # a graph
    HNSW_HALF = "hnsw-half"
    IVFFLAT = "ivfflat"  # inverted lists
    IVFFLAT_HALF = "ivfflat-half"

    @property
    def is_half(self) -> bool:
        """Whether the vectors are float16."""
        return self in (VectorIndexKind.HNSW_HALF, VectorIndexKind.IVFFLAT_HALF)

    @property
    def is_graph(self) -> bool:
        """Whether it is a graph; else it has inverted lists."""
        return self in (VectorIndexKind.HNSW, VectorIndexKind.HNSW_HALF)


@dataclass(frozen=True, slots=True)
class SearchEffort:
    """How far searches of such an index go; None = as the index wants.

    Args:
        candidates: that a search of a graph keeps: pgvector's `hnsw.ef_search`.
        lists: that a search scans: pgvector's `ivfflat.probes`.
    """

    candidates: int | None = None
    lists: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DatabaseHits:
    """What a search inside the database found.

    Shapes: labels [n, k] int64 chunk ids, -1 = none; distances [n, k] float32 squared L2,
    ascending.
    `revision` is one that the search has seen, and perhaps more; `how` names the index and the
    effort.
    """

    labels: NDArray[np.int64]
    distances: NDArray[np.float32]
    revision: int
    how: str


class VectorIndex(Protocol):
    """The index of one corpus, for several threads.

    Raises, from every method: StorageError when the database refuses; Unreachable when it isn't
    there.
    """

    def kind(self) -> VectorIndexKind | None:
        """Return what the index is, or is to be; None = there is none."""
        ...

    def is_ready(self) -> bool:
        """Whether searches can use the index."""
        ...

    def ready_kind(self) -> VectorIndexKind:
        """Return what the index is that searches can use.

        Raises: ConfigError: they can't; the message says what is missing, and the fix.
        """
        ...

    def check_offered(self) -> None:
        """Refuse a database that can't have such an index.

        Raises: ConfigError: the message says what is missing.
        """
        ...

    def refresh(self, kind: VectorIndexKind | None, on_rows: OnRows) -> None:
        """Make the index anew; None = finish or mend the one that there is.

        Writes go on meanwhile, and searches that need the index fail. What was made is kept where
        it is stopped.

        Raises: ConfigError: the database can't have it, or this user may not make it.
        """
        ...

    def remove(self) -> None:
        """Remove the index, if there is one.

        Raises: ConfigError: this user may not.
        """
        ...

    def vectors_estimated(self) -> int:
        """Return how many vectors it has, by the database's statistics."""
        ...

    def problem(self) -> str:
        """Return how it differs from the corpus; "" = it doesn't, or there is none."""
        ...

    def search(
        self, queries: NDArray[np.float32], topk: int, scope: SearchScope, effort: SearchEffort
    ) -> DatabaseHits:
        """Return the nearest live chunks in a scope: `topk` of them, or all there are.

        Shapes: queries [n, d].

        Raises: InputError: nothing in the corpus fits what the scope's `where` asks for.
        """
        ...
