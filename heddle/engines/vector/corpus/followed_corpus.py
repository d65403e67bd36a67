"""The corpus behind an index, as the engine that searches it sees it."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.corpus.word_searcher import WordSearcher


class FollowedCorpus(Protocol):
    """A corpus that changes while it is searched; how an index follows it is the index's own."""

    @property
    def words(self) -> WordSearcher:
        """The searcher by words."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Where searches of this corpus run degraded; every search reports it."""
        ...

    @property
    def problems(self) -> tuple[str, ...]:
        """Those of the `notes` that stay until somebody acts; the others end by themselves."""
        ...

    @property
    def has_news(self) -> bool:
        """Whether another process may have committed something since the last look."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, with news and when a search by words has ended."""
        ...

    def newest_revision(self) -> int:
        """Return the newest revision that was committed, here or by another process."""
        ...

    def ask_newest(self) -> bool:
        """Ask what the newest revision is, and don't wait; False = nothing was asked.

        Where it was asked, `asked_newest` is called next, else `newest_revision`.
        """
        ...

    def asked_newest(self) -> int | None:
        """Return the newest revision that was committed when `ask_newest` was called.

        None = the corpus didn't answer: what went ahead has to ask by `newest_revision`.
        """
        ...

    def covers(self, revision: int) -> bool:
        """Whether a search that has to see this revision may begin on the index as it is."""
        ...

    def allowed(self, scope: SearchScope) -> Allowed | None:
        """Return what a search of this scope may find now; None = everything.

        Raises: InputError: nothing in the corpus fits the scope.
        """
        ...

    def store(self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> int:
        """Commit vectors to the corpus; return its revision, which the index will follow."""
        ...

    def close(self) -> None:
        """Release the corpus; nothing is called afterwards."""
        ...
