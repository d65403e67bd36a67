"""FAISS behind the vector engine: IVF lists scanned piece by piece, with heaps carried over.

With PARALLEL_MODE_NO_HEAP_INIT, `search_preassigned` neither initialises nor sorts the heaps it
is given, so a search can be cut at any list and goes on as if it never stopped: the same ids
and distances as one call, bit for bit, on unmodified FAISS.
"""

import time

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.engines.vector.live_index import IvfIndex, LiveIndex, nprobe_for
from heddle.engines.vector.rebuild import Rebuild
from heddle.engines.vector.search import ascending
from heddle.engines.vector.slots import SlotTable
from heddle.engines.vector.source import VectorSource

NO_HEAP_INIT = 1024  # IndexIVF::PARALLEL_MODE_NO_HEAP_INIT
SEQUENTIAL, BY_QUERY = 0, 3
COARSE_ROWS = 16
"""Rows in one coarse search. FAISS switches to another formula for large batches; in blocks
this small a query's clusters never depend on who is searched for beside it."""
SELF_TEST_ROWS, SELF_TEST_LISTS, SELF_TEST_K = 4, 8, 10


class PerfClock:
    """The process's monotonic clock."""

    def now_s(self) -> float:
        """Return the time since an arbitrary start [s]."""
        return time.perf_counter()


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
        # IVFFlat codes are whole vectors, so distances to centroids are asked for but not read.
        self._no_distances = np.zeros(0, np.float32)
        self._list_sizes = np.zeros(0, np.int64)
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
        return self._nprobe or nprobe_for(self._live.count, self._live.nlist)

    @property
    def revision(self) -> int:
        """The corpus revision that the index covers."""
        return self._live.revision

    def coarse(self, queries: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
        """Return the nearest lists of each query, nearest first, [n, nprobe]."""
        assert self._live.index is not None, "coarse search without an index"
        quantizer = self._live.index.quantizer
        lists = np.empty((len(queries), nprobe), np.int64)
        for first in range(0, len(queries), COARSE_ROWS):
            block = slice(first, first + COARSE_ROWS)
            lists[block] = quantizer.search(queries[block], nprobe)[1]
        return lists

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> None:
        """Scan these lists (-1 = none) for each query; updates the heaps in place."""
        assert self._live.index is not None, "scan without an index"
        if lists.size > self._no_distances.size:
            self._no_distances = np.zeros(lists.size, np.float32)
        lists = np.ascontiguousarray(lists)
        self._params.nprobe = lists.shape[1]
        # The Python wrapper insists on the index's own nprobe; the method under it does not.
        self._live.index.search_preassigned_c(
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
        if self._rebuild is not None and self._live.is_lopsided:
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
        index = self._live.index
        if index is None:
            return
        check_steppable(index)
        mode = BY_QUERY if self._threads > 1 else SEQUENTIAL
        index.parallel_mode = mode | NO_HEAP_INIT
        self._self_test(index)

    def _self_test(self, index: IvfIndex) -> None:
        """Search a few random queries at once and in ragged steps; refuse any difference."""
        rng = np.random.default_rng(0)
        queries = rng.standard_normal((SELF_TEST_ROWS, index.d), dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        nprobe = min(SELF_TEST_LISTS, self._live.nlist)
        expected = one_shot(index, queries, SELF_TEST_K, nprobe)
        table = SlotTable(SELF_TEST_K, index.d)
        lists = self.coarse(queries, nprobe)
        n = len(queries)
        table.add(np.zeros(n, np.int64), np.arange(n), np.zeros(n, np.int64), queries, lists)
        while table.lists_left.any():
            counts = np.minimum(rng.integers(0, 4, n), table.lists_left)
            if counts.any():
                taken = table.take(counts)
                self.scan(table.queries[:n], taken, table.distances[:n], table.labels[:n])
        distances, labels = ascending(table.distances[:n], table.labels[:n])
        if not (np.array_equal(distances, expected[0]) and np.array_equal(labels, expected[1])):
            raise ConfigError(
                f"FAISS {faiss.__version__} searches in steps with other results than at once; "
                "install the faiss-cpu release that Heddle was tested with (1.15)"
            )


def one_shot(
    index: IvfIndex, queries: NDArray[np.float32], k: int, nprobe: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Search without steps, as FAISS does by itself: the reference.

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


def check_steppable(index: IvfIndex) -> None:
    """Refuse an index that would be searched wrongly in steps.

    Raises:
        ConfigError: with the reason.
    """
    kind = type(index).__name__
    if kind != "IndexIVFFlat":
        raise ConfigError(
            f"{kind} is not searched in steps: FastScan and graph indexes silently give other "
            "results with carried heaps; build an IndexIVFFlat"
        )
    if index.metric_type != faiss.METRIC_L2:
        raise ConfigError("the index has another metric than L2; normalise vectors and use L2")
    mode = int(index.parallel_mode) & ~NO_HEAP_INIT
    if mode not in (SEQUENTIAL, BY_QUERY):
        raise ConfigError(
            f"parallel_mode {mode} keeps heaps for each thread that nobody starts, so results "
            "would be silently wrong; set parallel_mode to 0 or 3"
        )
