"""What any index that follows a corpus does alike."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import Unreachable
from heddle.engines.vector.corpus.embedder_guard import EmbedderGuard
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.corpus.revision_guard import RevisionGuard
from heddle.engines.vector.corpus.source import VectorSource, store_in
from heddle.engines.vector.corpus.staleness import Staleness
from heddle.engines.vector.corpus.word_searches import WordSearches

L = TypeVar("L")
"""The index that follows, as a rebuild makes it."""


class FollowedSource(ABC, Generic[L]):
    """The index-independent half of a FollowedCorpus: reads, stores, and searches by words.

    Args:
        source: the corpus, which other processes may write to as well.
        rebuild: makes another index when the corpus has outgrown the present one; None = never.
        staleness: judges whether searches go on while the corpus is away; None = they fail.
    """

    def __init__(
        self,
        source: VectorSource,
        rebuild: Rebuild[L] | None,
        staleness: Staleness | None = None,
    ) -> None:
        self._source, self._rebuild = source, rebuild
        self._staleness = Staleness() if staleness is None else staleness
        self.words = WordSearches(source)
        self.has_news = False
        # What was asked, and the revision of the index then: it may follow before the answer.
        self._asked: tuple[Callable[[], int], int] | None = None
        self._embedder, self._history = EmbedderGuard(source), RevisionGuard()

    @property
    @abstractmethod
    def revision(self) -> int:
        """The corpus revision that the index covers."""

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, with news and when a search by words has ended."""

        def hear() -> None:
            self.has_news = True
            wake()

        self.words.subscribe(wake)
        self._source.subscribe(hear)

    def newest_revision(self) -> int:
        """Return the newest revision that was committed, here or by another process.

        While the corpus is away it is the one that the index covers, and `problems` say so.

        Raises:
            Unreachable: the corpus has been away for too long.
            ConfigError: it went back to an older revision than the index covers.
        """
        self.has_news = False  # before the look: what is committed during it is news again
        if self._staleness.is_waiting:
            self._staleness.check()
            return self.revision
        self._staleness.begin()
        newest = self._seen(lambda: self._source.revision, self.revision)
        return self.revision if newest is None else newest

    def ask_newest(self) -> bool:
        """Ask what the newest revision is, and don't wait; False = nothing was asked.

        Nothing is asked so while the corpus is away: a search would begin again and again.
        """
        if self._staleness.note:
            return False
        self.has_news = False
        self._staleness.begin()
        look: Callable[[], int] | None
        try:
            look = self._source.ask_revision()
        except Unreachable:
            look = None
        self._asked = None if look is None else (look, self.revision)
        return look is not None

    def asked_newest(self) -> int | None:
        """Return the newest revision that was committed when `ask_newest` was called.

        Returns: None = the corpus is away; `problems` say so from now on.

        Raises: as `newest_revision`.
        """
        asked, self._asked = self._asked, None
        assert asked is not None, "nothing was asked"
        return self._seen(*asked)

    def store(self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> int:
        """Commit vectors to the corpus; return its revision, which the index will follow."""
        return store_in(self._source, chunk_ids, vectors)

    def close(self) -> None:
        """Wait for the index that is being made, end searches by words, close the corpus."""
        self.words.close()
        if self._rebuild is not None:
            self._rebuild.wait()
        self._source.close()

    @property
    def problems(self) -> tuple[str, ...]:
        """What somebody has to mend: no better index was made, the corpus is away or went back."""
        rebuilding = "" if self._rebuild is None else self._rebuild.problem
        return tuple(filter(None, (rebuilding, self._staleness.note, self._history.problem)))

    def _seen(self, look: Callable[[], int], covered: int) -> int | None:
        """Return what a look at the corpus gives, which began at a revision; None = it is away."""
        try:
            newest = look()
        except Unreachable as error:
            self._staleness.check(error)
            return None
        self._staleness.seen()
        self._history.check(newest, covered)
        return newest

    @property
    def _has_rebuilt(self) -> bool:
        """Whether another index waits to be served, and the corpus is there to follow with it.

        One that took over while the corpus is away could be older, and look up no scope.
        """
        return self._rebuild is not None and self._rebuild.is_ready and not self._staleness.note

    @property
    def _may_rebuild(self) -> bool:
        """Whether another index waits to be served, or is to be tried again, as `_has_rebuilt`."""
        if self._rebuild is None or self._staleness.note:
            return False
        return self._rebuild.is_ready or self._rebuild.is_due

    def _take_over(self, serve: Callable[[L], None]) -> None:
        """Serve the index that was made; where it can't be served, note why."""
        assert self._rebuild is not None, "no index was made"
        made = self._rebuild.take()
        try:
            serve(made)
        except Exception as error:
            self._rebuild.refuse(error)

    def _start_rebuild(self, *, is_wanted: bool) -> None:
        """Have another index made if one is wanted, or is to be tried again."""
        if self._rebuild is not None and (is_wanted or self._rebuild.is_due):
            self._rebuild.start()
