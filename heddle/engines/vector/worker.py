"""FAISS behind the vector engine: IVF lists scanned piece by piece.

With PARALLEL_MODE_NO_HEAP_INIT, `search_preassigned` neither initialises nor sorts the heaps it
is given, so a search can be cut at any list and goes on as if it never stopped: the same ids
and distances as one call, bit for bit, on unmodified FAISS. FastScan ignores the flag without a
word: its lists are merged here, and only candidates nearer than the last are refined, because
which of several equally far ones a call returns depends on what else it scans.
"""

from enum import Enum
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.engines.vector.index_kind import nprobe_for
from heddle.engines.vector.live_index import IvfIndex, LiveIndex
from heddle.engines.vector.rebuild import Rebuild
from heddle.engines.vector.scan_kernels import centroid_distances
from heddle.engines.vector.search import SortedHits, ascending
from heddle.engines.vector.slots import SlotTable
from heddle.engines.vector.source import VectorSource

NO_HEAP_INIT = 1024  # IndexIVF::PARALLEL_MODE_NO_HEAP_INIT
SEQUENTIAL, BY_QUERY = 0, 3
CANDIDATES_MIN, CANDIDATES_PER_HIT = 100, 10  # of coded vectors, to be refined
SPARE_MAX = 4000  # candidates beyond the hits wanted
SELF_TEST_ROWS, SELF_TEST_LISTS, SELF_TEST_K = 4, 8, 10


class Stepping(Enum):
    """How a search of an index goes on after a sub-stage."""

    CARRY = "carry"  # FAISS goes on with the heaps of the sub-stage before
    MERGE = "merge"  # each sub-stage finds its own nearest, which are merged


CAPABILITIES = {
    "IndexIVFFlat": Stepping.CARRY,
    "IndexIVFFlatPanorama": Stepping.CARRY,
    "IndexIVFPQFastScan": Stepping.MERGE,
}
"""The kinds that can be searched in steps. Others give other results without a word, or were
never compared; a self-test holds each index to it when it is opened."""


class FaissWorker:
    """Scans the lists of one index, which follows the corpus that it is derived from.

    Args:
        live: the index.
        source: the corpus, which other processes may write to as well.
        nprobe: clusters a query scans by default; None = by the size of the index.
        threads: FAISS threads for one scan.
        rebuild: clusters the corpus anew when it has outgrown the index; None = never.

    Raises:
        ConfigError: the index is of a kind that can't be searched in steps, or the self-test
            found other results than a one-shot search.
    """

    def __init__(
        self,
        live: LiveIndex,
        source: VectorSource,
        nprobe: int | None = None,
        threads: int = 1,
        rebuild: Rebuild | None = None,
    ) -> None:
        faiss.omp_set_num_threads(threads)
        self._live, self._source = live, source
        self._nprobe, self._threads = nprobe, threads
        self._rebuild = rebuild
        self._embedder = source.embedder
        self._params = faiss.SearchParametersIVF()
        # No kind here uses the distances to centroids: FAISS asks for them but doesn't read them.
        self._no_distances = np.zeros(0, np.float32)
        self._list_sizes = np.zeros(0, np.int64)
        self._ivf: IvfIndex = None
        self._centroids = np.zeros((0, 0), np.float32)
        self._prepare()

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as the index is empty."""
        return self._live.dims

    @property
    def list_sizes(self) -> NDArray[np.int64]:
        """Vectors in each inverted list, [nlist]."""
        return self._list_sizes

    @property
    def nprobe_default(self) -> int:
        """Clusters a query scans when it doesn't say."""
        if self._ivf is None:
            return self._nprobe or 0
        return self._nprobe or nprobe_for(self._live.kind, self._live.nlist)

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        return self._live.revision

    def heap_size(self, topk: int) -> int:
        """Return the hits wanted, or more candidates where these are refined."""
        if self._live.refine is None:
            return topk
        return min(max(CANDIDATES_MIN, CANDIDATES_PER_HIT * topk), topk + SPARE_MAX)

    def prepared(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return queries as the lists hold vectors: rotated where these are, [n, d]."""
        if not isinstance(self._live.index, faiss.IndexPreTransform):
            return queries
        chain: Any = self._live.index.chain
        rotation = chain.at(0)
        # One by one: a product of more rows may round a row in another way.
        return np.concatenate([rotation.apply(queries[i : i + 1]) for i in range(len(queries))])

    def coarse(self, queries: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
        """Return the nearest lists of each prepared query, nearest first, [n, nprobe]."""
        distances = np.empty((len(queries), len(self._centroids)), np.float32)
        centroid_distances(self._centroids, queries, distances)
        near = np.argpartition(distances, nprobe - 1, axis=1)[:, :nprobe]
        distances = np.take_along_axis(distances, near, axis=1)
        return np.take_along_axis(near, np.lexsort((near, distances), axis=1), axis=1)

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> None:
        """Scan these lists (-1 = none) for each prepared query; updates the heaps in place."""
        if CAPABILITIES[type(self._ivf).__name__] is Stepping.CARRY:
            self._search(queries, lists, distances, labels)
            return
        found = (np.empty_like(distances), np.empty_like(labels))
        self._search(queries, lists, *found)
        found[0][found[1] < 0] = np.inf  # FAISS says the largest float there
        _merge(distances, labels, *found)

    def hits(
        self,
        queries: NDArray[np.float32],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        topk: int,
    ) -> SortedHits:
        """Return what the heaps hold as hits, refined first where they hold candidates."""
        refine = self._live.refine
        if refine is None:
            return ascending(distances, labels)
        is_nearer = distances < distances.max(axis=1, keepdims=True)
        is_nearer[is_nearer.sum(axis=1) < topk] = True  # as with many equal vectors
        rows = np.where(is_nearer, labels, -1)
        found, rows = ascending(refine.distances(queries, rows), rows)
        return found[:, :topk], refine.chunk_ids_at(rows[:, :topk])

    def _search(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> None:
        """Have FAISS scan the lists into these arrays."""
        if lists.size > self._no_distances.size:
            self._no_distances = np.zeros(lists.size, np.float32)
        queries, lists = np.ascontiguousarray(queries), np.ascontiguousarray(lists)
        self._params.nprobe = lists.shape[1]
        # The Python wrapper insists on the index's own nprobe; the method under it does not.
        self._ivf.search_preassigned_c(
            len(queries),
            faiss.swig_ptr(queries),
            distances.shape[1],
            faiss.swig_ptr(lists),
            faiss.swig_ptr(self._no_distances),
            faiss.swig_ptr(distances),
            faiss.swig_ptr(labels),
            False,
            self._params,
        )

    def newest_revision(self) -> int:
        """Return the newest revision that was committed to the corpus, here or elsewhere."""
        return self._source.revision

    def covers(self, revision: int) -> bool:
        """Whether the index has all of a revision, and no better one waits to take its place."""
        is_replaced = self._rebuild is not None and self._rebuild.is_ready
        return self._live.revision >= revision and not is_replaced

    def follow(self, *, in_flight: bool) -> int:
        """Bring a piece of what the corpus has written into the index; return how many changes.

        Raises:
            ConfigError: the corpus was emptied and made with another embedder.
        """
        if self._rebuild is not None and self._rebuild.is_ready:
            if in_flight:
                return 0
            self._live = self._rebuild.take()
            self._prepare()
        self._check_embedder()
        had_index = self._live.index is not None
        changes = self._live.advance(self._source, may_delete=not in_flight)
        if not had_index:
            self._prepare()
        elif changes:
            self._list_sizes = self._live.list_sizes()
        if self._rebuild is not None and self._live.is_outgrown:
            self._rebuild.start()
        return changes

    def store(self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> int:
        """Commit vectors to the corpus; return its revision, which the index will follow."""
        if not len(chunk_ids):
            return self._source.revision
        return self._source.store_vectors(
            chunk_ids.tolist(), np.ascontiguousarray(vectors, np.float32)
        )

    def close(self) -> None:
        """Wait for the index that is being made, and close the corpus."""
        if self._rebuild is not None:
            self._rebuild.wait()
        self._source.close()

    def _check_embedder(self) -> None:
        embedder = self._source.embedder
        if self._live.index is not None and embedder != self._embedder:
            raise ConfigError(
                f"the corpus was made anew with another embedder ({embedder}, before "
                f"{self._embedder}); start the server again"
            )
        self._embedder = embedder

    def _prepare(self) -> None:
        """Check that the index can be searched in steps, and switch it over."""
        self._list_sizes = self._live.list_sizes()
        self._ivf = ivf = self._live.ivf
        if ivf is None:
            return
        check_steppable(ivf)
        self._centroids = ivf.quantizer.reconstruct_n(0, ivf.nlist)
        mode = BY_QUERY if self._threads > 1 else SEQUENTIAL
        carries = CAPABILITIES[type(ivf).__name__] is Stepping.CARRY
        ivf.parallel_mode = mode | NO_HEAP_INIT if carries else SEQUENTIAL
        self._self_test()

    def _self_test(self) -> None:
        """Search a few random queries at once and in ragged steps; refuse any difference."""
        rng = np.random.default_rng(0)
        assert self.dims is not None, "an index without dimensions"
        queries = rng.standard_normal((SELF_TEST_ROWS, self.dims), dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        expected = self.search_at_once(queries, SELF_TEST_K, SELF_TEST_LISTS)
        queries = self.prepared(queries)
        table = SlotTable(SELF_TEST_K, self.heap_size(SELF_TEST_K), self.dims)
        lists = self.coarse(queries, min(SELF_TEST_LISTS, self._live.nlist))
        n = len(queries)
        table.add(np.zeros(n, np.int64), np.arange(n), np.zeros(n, np.int64), queries, lists)
        while table.lists_left.any():
            counts = np.minimum(rng.integers(0, 4, n), table.lists_left)
            rows, taken = table.take(counts)
            heaps = (table.distances[rows], table.labels[rows])
            self.scan(queries[rows], taken, *heaps)
            table.distances[rows], table.labels[rows] = heaps
        distances, labels = self.hits(queries, table.distances[:n], table.labels[:n], SELF_TEST_K)
        if not (np.array_equal(distances, expected[0]) and np.array_equal(labels, expected[1])):
            raise ConfigError(
                f"FAISS {faiss.__version__} searches in steps with other results than at once; "
                "install the faiss-cpu release that Heddle was tested with (1.15)"
            )

    def search_at_once(self, queries: NDArray[np.float32], topk: int, nprobe: int) -> SortedHits:
        """Search without steps: FAISS scans every list of every query in one call."""
        queries = self.prepared(queries)
        lists = self.coarse(queries, min(nprobe, self._live.nlist))
        shape = (len(queries), self.heap_size(topk))
        distances, labels = np.empty(shape, np.float32), np.empty(shape, np.int64)
        mode, self._ivf.parallel_mode = self._ivf.parallel_mode, SEQUENTIAL
        try:
            self._search(queries, lists, distances, labels)
        finally:
            self._ivf.parallel_mode = mode
        distances[labels < 0] = np.inf
        return self.hits(queries, distances, labels, topk)


def _merge(
    distances: NDArray[np.float32],
    labels: NDArray[np.int64],
    found: NDArray[np.float32],
    found_labels: NDArray[np.int64],
) -> None:
    """Keep the nearest of two lists a row, in the first of them. Shapes: all [n, k].

    A row that had nothing yet takes what was found as it is: a search that is over in one step
    merges nothing.
    """
    is_first = (labels < 0).all(axis=1)
    distances[is_first], labels[is_first] = found[is_first], found_labels[is_first]
    rows = np.flatnonzero(~is_first)
    if not len(rows):
        return
    both = np.concatenate([distances[rows], found[rows]], axis=1)
    both_labels = np.concatenate([labels[rows], found_labels[rows]], axis=1)
    kept = np.argpartition(both, distances.shape[1] - 1, axis=1)[:, : distances.shape[1]]
    distances[rows] = np.take_along_axis(both, kept, axis=1)
    labels[rows] = np.take_along_axis(both_labels, kept, axis=1)


def one_shot(
    index: IvfIndex, queries: NDArray[np.float32], k: int, nprobe: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Search an index of whole vectors as FAISS does by itself: the reference.

    Shapes: distances [n, k], inf where there is no hit; labels [n, k], -1 there.
    """
    mode = index.parallel_mode
    index.parallel_mode = SEQUENTIAL
    try:
        params = faiss.SearchParametersIVF()
        params.nprobe = nprobe
        distances, labels = index.search(queries, k, params=params)
    finally:
        index.parallel_mode = mode
    distances[labels < 0] = np.inf  # FAISS says the largest float there
    return distances, labels


def check_steppable(ivf: IvfIndex) -> None:
    """Refuse an index that would be searched wrongly in steps.

    Raises:
        ConfigError: with the reason.
    """
    kind = type(ivf).__name__
    if kind not in CAPABILITIES:
        raise ConfigError(
            f"{kind} is not searched in steps: most kinds of index silently give other results "
            f"with carried heaps; build one of {', '.join(CAPABILITIES)}"
        )
    if ivf.metric_type != faiss.METRIC_L2:
        raise ConfigError("the index has another metric than L2; normalise vectors and use L2")
    if CAPABILITIES[kind] is Stepping.MERGE and ivf.by_residual:
        raise ConfigError(
            f"{kind} encodes residuals, so its distances depend on the lists that are scanned "
            "together; set by_residual to False before training"
        )
    mode = int(ivf.parallel_mode) & ~NO_HEAP_INIT
    if mode not in (SEQUENTIAL, BY_QUERY):
        raise ConfigError(
            f"parallel_mode {mode} keeps heaps for each thread that nobody starts, so results "
            "would be silently wrong; set parallel_mode to 0 or 3"
        )
