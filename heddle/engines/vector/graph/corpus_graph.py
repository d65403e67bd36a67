"""The graph of a corpus directory: built, kept in one file, and followed while it serves.

`DIR/index/graph` is derived from the corpus, as every index is: whatever is wrong with it, it is
built again. That it exists says that the corpus is searched by a graph.
"""

import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import InputError, StorageError
from heddle.core.search_scope import SearchScope
from heddle.engines.vector.embedder_guard import EmbedderGuard
from heddle.engines.vector.graph.graph_file import open_graph, write_graph
from heddle.engines.vector.graph.graph_index import GraphIndex, build_graph
from heddle.engines.vector.graph.graph_path import graph_path
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.progress import OnPhase
from heddle.engines.vector.graph.worker import NumbaWorker
from heddle.engines.vector.rebuild import Rebuild
from heddle.engines.vector.source import VectorSource, store_in
from heddle.engines.vector.word_searches import WordSearches

log = logging.getLogger(__name__)


def read_live(directory: Path, source: VectorSource) -> LiveGraph:
    """Return the graph as its file has it and what the corpus wrote since.

    Where the file can't be trusted there is no graph in it, only vectors: searches are right but
    compare them all until one is built.
    """
    try:
        live = LiveGraph(_checked(directory, source))
    except (InputError, StorageError) as error:
        log.warning("the graph is not used and built again: %s", error)
        live = LiveGraph(None)
    live.follow(source)
    if live.count != source.vector_count and live.revision == source.revision:
        log.warning("the graph holds other vectors than the corpus: built again")
        live = LiveGraph(None)
        live.follow(source)
    return live


def build_live(directory: Path, source: VectorSource, on_phase: OnPhase) -> LiveGraph:
    """Build a graph of all that is in the corpus, and write its file if the disk lets it."""
    live = _built(source, on_phase)
    if live.graph is not None:
        try:
            write_graph(graph_path(directory), live.graph)
            live = LiveGraph(open_graph(graph_path(directory)))  # from the file, not from memory
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
    built = _built(source, on_phase)
    if built.graph is not None:
        write_graph(graph_path(directory), built.graph)


class FollowedGraph:
    """A corpus that is searched by a graph, and what brings its changes to the worker.

    Args:
        live: the graph as it is.
        worker: searches it.
        source: the corpus, which other processes may write to as well.
        rebuild: builds another graph when this one is outgrown.
    """

    def __init__(
        self,
        live: LiveGraph,
        worker: NumbaWorker,
        source: VectorSource,
        rebuild: Rebuild[LiveGraph],
    ) -> None:
        self._live, self._worker, self._source, self._rebuild = live, worker, source, rebuild
        self.words = WordSearches(source)
        self._embedder = EmbedderGuard(source)
        self._start_if_outgrown()

    @property
    def notes(self) -> tuple[str, ...]:
        """Why no better graph could be made, if one was tried."""
        return (self._rebuild.problem,) if self._rebuild.problem else ()

    @property
    def count(self) -> int:
        """Vectors that are searched."""
        return self._live.count

    def newest_revision(self) -> int:
        """Return the newest revision that was committed, here or elsewhere."""
        return self._source.revision

    def allowed(self, scope: SearchScope) -> NDArray[np.int64] | None:
        """Return the chunks that a search of this scope may find; None = all."""
        return self._source.allowed(scope)

    def covers(self, revision: int) -> bool:
        """Whether all of a revision is in, and no better graph waits to be taken or tried."""
        has_work = self._rebuild.is_ready or self._rebuild.is_due
        return self._live.revision >= revision and not has_work

    def follow(self, *, in_flight: bool) -> int:
        """Bring in a piece of what was written; return how many changes.

        Raises:
            ConfigError: the corpus was emptied and made with another embedder.
        """
        if self._rebuild.is_ready:
            if in_flight:
                return 0
            self._live = self._rebuild.take()
            self._worker.serve(self._live)
        self._embedder.check(has_vectors=self._live.dims is not None)
        dims = self._live.dims
        changes = self._live.advance(self._source)
        if self._live.dims != dims:
            self._worker.serve(self._live)
        self._start_if_outgrown()
        return changes

    def store(self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> int:
        """Commit vectors to the corpus; return its revision, which will be followed."""
        return store_in(self._source, chunk_ids, vectors)

    def close(self) -> None:
        """Wait for what goes on beside the steps, and close the corpus."""
        self.words.close()
        self._rebuild.wait()
        self._source.close()

    def _start_if_outgrown(self) -> None:
        if self._live.is_outgrown or self._rebuild.is_due:
            self._rebuild.start()


def _built(source: VectorSource, on_phase: OnPhase) -> LiveGraph:
    """Build a graph of all vectors.

    The revision is read before them: what is written meanwhile may be in already, and is replayed
    by its id later.
    """
    revision, batches = source.revision, list(source.vectors())
    if not batches:
        return LiveGraph(None, revision)
    graph = build_graph(
        np.concatenate([batch.vectors for batch in batches]),
        np.concatenate([batch.chunk_ids for batch in batches]),
        revision=revision,
        embedder=repr(source.embedder),
        on_phase=on_phase,
    )
    return LiveGraph(graph)


def _checked(directory: Path, source: VectorSource) -> GraphIndex:
    """Open the file; refuse a graph of another corpus state or embedder."""
    graph = open_graph(graph_path(directory))
    if graph.embedder != repr(source.embedder):
        raise InputError(f"it was made by {graph.embedder}, the corpus by {source.embedder!r}")
    if graph.revision > source.revision:
        raise InputError(f"it covers revision {graph.revision}, the corpus is at {source.revision}")
    if graph.dims != source.dims:
        raise InputError(f"it holds {graph.dims}-d vectors, the corpus {source.dims}-d")
    return graph
