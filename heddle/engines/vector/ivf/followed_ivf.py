"""The corpus behind inverted lists: what brings its changes to them, and the scanner of both."""

from collections.abc import Callable, Collection
from functools import partial

import numpy as np
from numpy.typing import NDArray

from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.allowed import Allowed, KeptScopes, are_few
from heddle.engines.vector.corpus.followed_source import FollowedSource
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.corpus.source import VectorSource
from heddle.engines.vector.corpus.staleness import Staleness
from heddle.engines.vector.ivf.chunk_places import ChunkPlaces
from heddle.engines.vector.ivf.hot.port import ListDevice
from heddle.engines.vector.ivf.live_index import IvfIndex, LiveIndex
from heddle.engines.vector.ivf.stepping_check import checked_scanner


class FollowedIvf(FollowedSource[LiveIndex]):
    """An index of inverted lists and the corpus that it is derived from.

    `scanner` scans the index that is served, `places` knows where its chunks lie. Both are replaced
    when another index takes over: get them anew for each step.

    Args:
        live: the index.
        source: the corpus, which other processes may write to as well.
        nprobe: lists a query scans by default; None = by the size of the index.
        threads: for one scan.
        rebuild: clusters the corpus anew when it has outgrown the index; None = never.
        make_hot: puts a device beside an index, for its hot lists; None = there is none.
        staleness: judges whether searches go on while the corpus is away; None = they fail.

    Raises:
        ConfigError: the index can't be searched in steps; see `checked_scanner`.
    """

    def __init__(
        self,
        live: LiveIndex,
        source: VectorSource,
        nprobe: int | None = None,
        threads: int = 1,
        rebuild: Rebuild[LiveIndex] | None = None,
        make_hot: Callable[[IvfIndex], ListDevice] | None = None,
        staleness: Staleness | None = None,
    ) -> None:
        super().__init__(source, rebuild, staleness)
        self.live = live
        self._filters = KeptScopes(source, self._allowed)
        self._checked = partial(checked_scanner, nprobe=nprobe, threads=threads, make_hot=make_hot)
        self.scanner, self.places = self._checked(live), ChunkPlaces(live)
        self._is_served = True

    @property
    def notes(self) -> tuple[str, ...]:
        """Why no better index could be made, if one was tried."""
        return self.problems

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        return self.live.revision

    def covers(self, revision: int) -> bool:
        """Whether the index has all of a revision, and no better one is to be taken or tried."""
        return self._is_served and self.live.revision >= revision and not self._may_rebuild

    def allowed(self, scope: SearchScope) -> Allowed | None:
        """Return what a scope lets a search find; None = everything."""
        return self._filters.at(scope, self.live.revision)

    def _allowed(self, chunk_ids: NDArray[np.int64]) -> Allowed:
        refine = self.live.refine
        if refine is None:  # every list of such an index is scanned, which leaves nothing out
            return Allowed.of(chunk_ids, is_few=False)
        rows = refine.rows_of(chunk_ids)
        return Allowed.of(rows, is_few=are_few(len(rows), self.live.count))

    def follow(self, *, in_flight: bool, unlimited: Collection[SearchScope] = ()) -> int:
        """Bring a piece of the corpus's changes into the index; return how many it was.

        Raises:
            ConfigError: the corpus was emptied and made with another embedder.
        """
        if self._has_rebuilt:
            if in_flight:
                return 0
            self._take_over(self._serve)
        if not self._is_served:
            self._serve(self.live)
        self._embedder.check(has_vectors=self.live.index is not None)
        self._filters.clear()  # the index holds more than its revision until all pieces are in
        had_index = self.live.index is not None
        self.scanner.lists_will_change()  # before: what fails half-way has moved vectors, too
        try:
            changes = self.live.advance(
                self._source,
                may_delete=not in_flight,
                may_add=lambda: not any(map(self._source.is_limited, unlimited)),
            )
        except Exception:
            self._is_served = had_index  # a first index that is half made has no scanner yet
            self.scanner.lists_changed()  # some of them, perhaps; the next try finds less to do
            raise
        if not had_index:
            self._serve(self.live)
        elif changes:
            self.scanner.lists_changed()
            self.places.changed(changes)
        self._start_rebuild(is_wanted=self.live.is_outgrown or self.live.wants_saving)
        return changes

    def _serve(self, live: LiveIndex) -> None:
        """Check that an index can be searched in steps, and serve it.

        No search begins before that has succeeded: it fails the searches that wait.
        """
        self._is_served = False
        self.scanner.hot = None  # its memory is planned once: the next lists need it
        self.scanner = self._checked(live)
        self.live, self.places = live, ChunkPlaces(live)
        self._filters.clear()  # their labels are those of the index before
        self._is_served = True
