"""The graph of a corpus directory: built, kept in one file, and followed while it serves.

`DIR/index/graph` is derived from the corpus, as every index is: a damaged one is built again. That
the file exists says that the corpus is searched by a graph.
"""

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InputError, StorageError
from heddle.core.own_files import OWNER_ONLY
from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.allowed import Allowed, KeptScopes, are_few
from heddle.engines.vector.corpus.followed_source import FollowedSource
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.corpus.source import VectorSource
from heddle.engines.vector.corpus.staleness import Staleness
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.graph.graph_file import open_graph, write_graph
from heddle.engines.vector.graph.graph_header import read_header
from heddle.engines.vector.graph.graph_index import GraphIndex, build_graph
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.live_worker import LiveWorker
from heddle.engines.vector.graph.progress import OnPhase

log = logging.getLogger(__name__)
NO_GRAPH = "the corpus has no graph yet"
COMPARING = "each search compares all vectors until one is built"


def read_live(directory: Path, source: VectorSource) -> LiveGraph:
    """Return the graph as its file has it and what the corpus wrote since.

    Where the file can't be trusted there is no graph in it, only vectors: searches are right but
    compare them all until one is built, and `problem` says why.
    """
    live = LiveGraph(None)
    if graph_path(directory).exists():
        try:
            live = LiveGraph(_checked(directory, source))
        except (InputError, StorageError) as error:
            live = _without_graph(f"the graph is not used and built again: {error}")
    live.follow(source)
    if live.count != source.vector_count and live.revision == source.revision:
        live = _without_graph("the graph holds other vectors than the corpus: built again")
        live.follow(source)
    return live


def _without_graph(problem: str) -> LiveGraph:
    log.warning("%s", problem)
    return LiveGraph(None, problem=problem)


def build_live(
    directory: Path,
    source: VectorSource,
    on_phase: OnPhase,
    is_wanted: Callable[[], bool] = lambda: True,
) -> LiveGraph:
    """Build a graph of all that is in the corpus, and write its file if the disk lets it.

    `is_wanted` is asked when it is built: whether the corpus is still to be searched by a graph.
    Where it isn't, the file stays away, as that it exists says so.
    """
    live = _built(directory, source, on_phase)
    if live.graph is None:
        return live
    if not is_wanted():
        log.info("the graph is kept in memory only: another kind of index was asked for")
        return live
    try:
        write_graph(graph_path(directory), live.graph)
        return LiveGraph(open_graph(graph_path(directory)))  # from the file, not from memory
    except StorageError as error:
        log.warning("the graph is kept in memory only: %s", error)
        return live


def refresh_graph(directory: Path, source: VectorSource, on_phase: OnPhase) -> None:
    """Bring the file up to the corpus, where it is there and not outgrown without a new build.

    Raises:
        StorageError: the disk refused; the old file is still valid.
    """
    if graph_path(directory).exists():
        live = read_live(directory, source)
        if live.graph is not None and not live.is_outgrown:
            return
    built = _built(directory, source, on_phase)
    if built.graph is not None:
        write_graph(graph_path(directory), built.graph)


class FollowedGraph(FollowedSource[LiveGraph]):
    """A corpus that is searched by a graph, and what brings its changes to the worker.

    Args:
        live: the graph as it is.
        worker: searches it.
        source: the corpus, which other processes may write to as well.
        rebuild: builds another graph when this one is outgrown.
        staleness: judges whether searches go on while the corpus is away; None = they fail.
    """

    def __init__(
        self,
        live: LiveGraph,
        worker: LiveWorker,
        source: VectorSource,
        rebuild: Rebuild[LiveGraph],
        staleness: Staleness | None = None,
    ) -> None:
        super().__init__(source, rebuild, staleness)
        self._live, self._worker = live, worker
        self._scopes = KeptScopes(source, self._allowed)
        self._start_if_outgrown()

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there is no graph, or no better one could be made, if one was tried."""
        lacking = (self._live.problem or NO_GRAPH) if self._lacks_graph else ""
        comparing = f"{lacking}; {COMPARING}" if lacking else ""
        return (comparing, *self.problems) if comparing else self.problems

    @property
    def revision(self) -> int:
        """The corpus revision that the graph and the vectors beside it cover."""
        return self._live.revision

    def allowed(self, scope: SearchScope) -> Allowed | None:
        """Return the chunks that a search of this scope may find by now; None = all.

        By what the corpus has: while the graph follows it, it holds chunks of the next revision.

        Raises: InputError: no chunk fits the scope.
        """
        return self._scopes.at(scope, self.newest_revision())

    def _allowed(self, chunk_ids: NDArray[np.int64]) -> Allowed:
        return Allowed.of(chunk_ids, is_few=are_few(len(chunk_ids), self._live.count))

    def covers(self, revision: int) -> bool:
        """Whether all of a revision is in, and no better graph waits to be taken or tried."""
        return self._live.revision >= revision and not self._may_rebuild

    def follow(self, *, in_flight: bool) -> int:
        """Bring in a piece of what was written; return how many changes.

        Raises:
            ConfigError: the corpus was emptied and made with another embedder.
        """
        if self._has_rebuilt:
            if in_flight:
                return 0
            self._take_over(self._serve)
        self._embedder.check(has_vectors=self._live.dims is not None)
        self._scopes.clear()  # the graph holds more than its revision until all pieces are in
        dims = self._live.dims
        changes = self._live.advance(self._source)
        if self._live.dims != dims:
            self._worker.serve(self._live)
        self._start_if_outgrown()
        return changes

    @property
    def _lacks_graph(self) -> bool:
        """Whether there are vectors without a graph, and more than are compared at no cost."""
        live = self._live
        return live.graph is None and live.count > 0 and (bool(live.problem) or live.is_outgrown)

    def _serve(self, live: LiveGraph) -> None:
        self._worker.serve(live)
        self._live = live
        self._scopes.clear()  # what was written while it was built may be in it

    def _start_if_outgrown(self) -> None:
        self._start_rebuild(is_wanted=self._live.is_outgrown or self._lacks_graph)


def _built(directory: Path, source: VectorSource, on_phase: OnPhase) -> LiveGraph:
    """Build a graph of all vectors, which lie in a file meanwhile: the system may drop its pages.

    The revision is read before them: what is written meanwhile may be in already, and is replayed
    by its id later.

    Raises:
        StorageError: the disk has no room for the file.
    """
    revision, dims, labels = source.revision, source.dims, [np.zeros(0, np.int64)]
    folder = graph_path(directory).parent
    try:
        folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            for batch in source.vectors():
                np.ascontiguousarray(batch.vectors, np.float32).tofile(file)
                labels.append(batch.chunk_ids)
            chunk_ids = np.concatenate(labels)
            if not len(chunk_ids):
                return LiveGraph(None, revision)
            file.flush()
            graph = build_graph(
                np.asarray(np.memmap(file, np.float32, "c", shape=(len(chunk_ids), dims or 0))),
                chunk_ids,
                revision=revision,
                embedder=repr(source.embedder),
                origin=source.origin,
                on_phase=on_phase,
            )
    except OSError as error:
        raise StorageError(f"could not lay the vectors out in {folder}: {error}") from error
    return LiveGraph(graph)


def _checked(directory: Path, source: VectorSource) -> GraphIndex:
    """Open the file; refuse a graph of another corpus state or embedder."""
    path = graph_path(directory)
    read_header(path).check_fits(source)
    return open_graph(path)
