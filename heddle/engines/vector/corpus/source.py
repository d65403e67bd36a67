"""What the vector engine needs of a corpus: vectors by revision, and a place to store more."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.search_scope import SearchScope

OTHER_ORIGIN: Final = "it was made of other tables than the corpus's, as before a restore"


class VectorBatch(Protocol):
    """Some vectors of a corpus. Shapes: chunk_ids [n] int64; vectors [n, d] float32, normalised."""

    @property
    def chunk_ids(self) -> NDArray[np.int64]:
        """The chunks, one for each row."""
        ...

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Their embeddings."""
        ...


class VectorSource(Protocol):
    """The log that an index is derived from: revisions only grow.

    Example:
        from heddle.corpus.store import CorpusStore

        with CorpusStore.open("corpus") as source:
            index, covered = {}, source.revision
            for batch in source.vectors():
                index.update(zip(batch.chunk_ids, batch.vectors))
            server.upsert("bakery", "The Stone Bakery was founded by Ida Moss.")
            news = [len(batch.chunk_ids) for batch in source.vectors(after_revision=covered)]
            server.delete("bakery")
            print(len(index), news, len(source.deleted(after_revision=covered)))  # 3 [1] 1
    """

    @property
    def revision(self) -> int:
        """The newest committed revision."""
        ...

    def ask_revision(self) -> Callable[[], int] | None:
        """Ask for `revision`, and don't wait; return what does; None = reading it is as quick."""
        return None

    @property
    def vector_count(self) -> int:
        """Live vectors."""
        ...

    @property
    def dims(self) -> int | None:
        """Length of a vector; None or 0 as long as there is none."""
        ...

    @property
    def embedder(self) -> object | None:
        """What made the vectors; value and repr tell two embedders apart."""
        ...

    @property
    def origin(self) -> str:
        """Names the log, as it was opened: a copy of it that was restored elsewhere has another.

        An index fits no log but its own: in another one the same revisions may be other commits.
        "" = copies have the same.
        """
        return ""

    def vectors(self, after_revision: int = 0, batch_rows: int = 4096) -> Iterator[VectorBatch]:
        """Yield the live vectors written after a revision, in a fixed order.

        Every batch but the last has `batch_rows` rows; they may be taken with pauses between.
        """
        ...

    def deleted(self, after_revision: int) -> NDArray[np.int64]:
        """Return the ids of chunks deleted after a revision."""
        ...

    def allowed(self, scope: SearchScope) -> NDArray[np.int64] | None:
        """Return the ids of the live chunks in a scope, each once; None = all are.

        Raises: InputError: nothing in the corpus fits what its `where` asks for.
        """
        ...

    def is_limited(self, scope: SearchScope) -> bool:
        """Whether there may be chunks outside a scope by now; quick in any corpus."""
        ...

    def by_words(
        self, text: str, limit: int, scope: SearchScope, is_cancelled: Callable[[], bool]
    ) -> VectorBatch:
        """Return the live chunks in a scope that share words with a text, the best first.

        Called from another thread than the rest. Fails soon after `is_cancelled` has become true.
        """
        ...

    def store_vectors(self, chunk_ids: Sequence[int], vectors: NDArray[np.float32]) -> int:
        """Commit vectors in one transaction and return the new revision."""
        ...

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change`, from another thread, soon after other processes have committed.

        It is a hint, which may be missing: `revision` says what there is.
        """
        ...

    def close(self) -> None:
        """Let go of it; nothing is called afterwards."""
        ...


def store_in(
    source: VectorSource, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]
) -> int:
    """Commit vectors, if there are any, and return the corpus's revision then.

    Shapes: chunk_ids [n]; vectors [n, d].
    """
    if not len(chunk_ids):
        return source.revision
    return source.store_vectors(chunk_ids.tolist(), np.ascontiguousarray(vectors, np.float32))
