"""A corpus whose database searches its vectors itself, as the engine sees it."""

from collections.abc import Callable
from typing import Final, Protocol

from heddle.core.errors import Cancelled, InputError
from heddle.core.payloads import SearchPayload
from heddle.core.search_scope import NO_PASSAGE, SearchScope
from heddle.corpus.vector_index import DatabaseHits, SearchEffort, VectorIndex
from heddle.engines.vector.corpus.followed_source import FollowedSource
from heddle.engines.vector.corpus.outside_searches import OutsideSearches
from heddle.engines.vector.corpus.source import VectorSource

SEARCHES_MAX: Final = 4  # at once, each with a connection and a core of the database


class SearchedSource(VectorSource, Protocol):
    """A corpus with an index inside its database."""

    @property
    def vector_index(self) -> VectorIndex | None:
        """The index; None = this kind of database can't have one."""
        ...

    def has_any(self, scope: SearchScope) -> bool:
        """Whether a search in this scope can find anything."""
        ...


class SearchedDatabase(FollowedSource[None]):
    """A corpus that nothing has to follow: each search sees what was committed before it began.

    Args:
        source: the corpus.
        index: inside its database.
        effort: how far a search goes that doesn't say.

    `dims` is the length of a vector, None where there is none; `vectors` are those in the index, by
    the database's statistics.
    """

    def __init__(self, source: SearchedSource, index: VectorIndex, effort: SearchEffort) -> None:
        super().__init__(source, rebuild=None)
        self._searched, self._index, self._effort = source, index, effort
        self.searches = OutsideSearches(self._find, SEARCHES_MAX, "pgvector")
        self.seen_revision = self._checked_revision = source.revision
        self.dims = source.dims or None
        self.vectors = index.vectors_estimated()

    @property
    def revision(self) -> int:
        """The newest revision that a search has seen."""
        return self.seen_revision

    @property
    def notes(self) -> tuple[str, ...]:
        """Nothing: a search that the database can't carry out fails."""
        return ()

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, when a search has ended; news change nothing here."""
        self.words.subscribe(wake)
        self.searches.subscribe(wake)

    def newest_revision(self) -> int:
        """Return the newest revision that a search has seen: the database looks by itself."""
        return self.seen_revision

    def ask_newest(self) -> bool:
        """Return False: nothing has to be asked."""
        return False

    def covers(self, revision: int) -> bool:
        """Whether a search may begin: it always may."""
        return True

    def allowed(self, scope: SearchScope) -> None:
        """Return None: the database keeps to the scope."""

    def close(self) -> None:
        """End what goes on, and close the corpus."""
        self.searches.close()
        super().close()

    def _find(self, payload: SearchPayload, is_cancelled: Callable[[], bool]) -> DatabaseHits:
        effort = SearchEffort(
            payload.topm or self._effort.candidates, payload.nprobe or self._effort.lists
        )
        if is_cancelled():
            raise Cancelled("the search is no longer wanted")
        scope = payload.scope
        found = self._index.search(payload.queries, payload.topk, scope, effort)
        if found.revision != self._checked_revision:
            self._embedder.check(has_vectors=True)
            self._checked_revision = found.revision
        if scope.where and not (found.labels >= 0).any() and not self._searched.has_any(scope):
            raise InputError(f"{NO_PASSAGE} {scope}")
        return found
