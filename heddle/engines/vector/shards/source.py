"""A part of a corpus as a vector source of its own."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import StorageError
from heddle.core.search_scope import SearchScope
from heddle.corpus.place import CorpusPlace
from heddle.engines.vector.corpus.source import VectorBatch, VectorSource
from heddle.engines.vector.shards.folders import HeldFolder
from heddle.engines.vector.shards.part import WHOLE, Part


class PartedSource(VectorSource, Protocol):
    """A corpus that gives a part of itself without reading the rest."""

    def vectors(
        self,
        after_revision: int = 0,
        batch_rows: int = 4096,
        *,
        number: int = 0,
        of: int = 1,
    ) -> Iterator[VectorBatch]:
        """Yield the live vectors of chunks whose id leaves `number` when divided by `of`."""
        ...

    def count_part(self, number: int, of: int) -> int:
        """Return how many there are."""
        ...


class ShardSource:
    """The vectors of one part; what is stored through it may be another part's.

    Args:
        source: the corpus.
        part: what of it is seen.
        folder: where the part's index lies, kept until `close`; None = nowhere.
    """

    def __init__(self, source: PartedSource, part: Part, folder: HeldFolder | None = None) -> None:
        self._source, self._part, self._folder = source, part, folder

    @property
    def revision(self) -> int:
        """The corpus's newest revision: one that changes other parts counts as well."""
        return self._source.revision

    def ask_revision(self) -> Callable[[], int] | None:
        """Ask the corpus for its newest revision, and don't wait; return what does, if anything."""
        return self._source.ask_revision()

    @property
    def vector_count(self) -> int:
        """Live vectors of the part."""
        return self._source.count_part(self._part.number, self._part.of)

    @property
    def dims(self) -> int | None:
        """Length of a vector; None or 0 as long as there is none."""
        return self._source.dims

    @property
    def embedder(self) -> object | None:
        """What made the vectors."""
        return self._source.embedder

    @property
    def origin(self) -> str:
        """Names the corpus's log."""
        return self._source.origin

    def vectors(self, after_revision: int = 0, batch_rows: int = 4096) -> Iterator[VectorBatch]:
        """Yield the part's live vectors written after a revision; only the last batch is short."""
        part = self._part
        return self._source.vectors(after_revision, batch_rows, number=part.number, of=part.of)

    def deleted(self, after_revision: int) -> NDArray[np.int64]:
        """Return the part's chunks deleted after a revision."""
        deleted = self._source.deleted(after_revision)
        return deleted[self._part.holds(deleted)]

    def allowed(self, scope: SearchScope) -> NDArray[np.int64] | None:
        """Return the part's live chunks in a scope; None = all are.

        Raises: InputError: nothing in the whole corpus fits what its `where` asks for.
        """
        allowed = self._source.allowed(scope)
        return None if allowed is None else allowed[self._part.holds(allowed)]

    def is_limited(self, scope: SearchScope) -> bool:
        """Whether the whole corpus may have chunks outside a scope."""
        return self._source.is_limited(scope)

    def by_words(
        self, text: str, limit: int, scope: SearchScope, is_cancelled: Callable[[], bool]
    ) -> VectorBatch:
        """Return the corpus's best chunks by words: ranks of parts could not be merged."""
        return self._source.by_words(text, limit, scope, is_cancelled)

    def store_vectors(self, chunk_ids: Sequence[int], vectors: NDArray[np.float32]) -> int:
        """Commit vectors to the corpus, whichever part they are; return the new revision."""
        return self._source.store_vectors(chunk_ids, vectors)

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` soon after other processes have committed, to whichever part."""
        self._source.subscribe(on_change)

    def close(self) -> None:
        """Let go of the corpus and of the index's folder; closing twice is fine."""
        self._source.close()
        if self._folder is not None:
            self._folder.release()
            self._folder = None


def open_source(place: CorpusPlace, part: Part) -> VectorSource:
    """Open a corpus, or a part of it with its folder.

    Raises:
        HeddleError: the corpus can't be opened.
    """
    from heddle.corpus.store import CorpusStore  # late: what only decides loads no database

    source = CorpusStore.open(place)
    if part == WHOLE:
        return source
    try:
        return ShardSource(source, part, HeldFolder(part.directory(place.work)))
    except OSError as error:
        source.close()
        raise StorageError(f"{part.directory(place.work)}: the disk refused ({error})") from error
