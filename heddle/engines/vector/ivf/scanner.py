"""Inverted lists of FAISS, scanned piece by piece.

Whole vectors are scanned by our own kernel where it gives FAISS's distances bit for bit, because
queries then share what is read from memory. The others are scanned by FAISS.

With PARALLEL_MODE_NO_HEAP_INIT, `search_preassigned` neither initialises nor sorts the heaps it
is given, so a search can be cut at any list and goes on as if it never stopped: the same ids
and distances as one call, bit for bit, on unmodified FAISS. FastScan ignores the flag without a
word: its lists are merged here, and only candidates nearer than the last are refined, because
which of several equally far ones a call returns depends on what else it scans. Where those are
fewer than the hits wanted, the codes don't tell which hits to return, and steps may return others
than one call (see `are_settled`).
"""

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.files.index_kind import nprobe_for
from heddle.engines.vector.ivf.hot.port import ListDevice
from heddle.engines.vector.ivf.ivf_kind import IvfKind, Stepping, kind_of
from heddle.engines.vector.ivf.list_memory import ListMemory
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.nearest import nearest
from heddle.engines.vector.ivf.scan_team import ScanTeam
from heddle.engines.vector.kernels.scan_kernels import centroid_distances
from heddle.engines.vector.kernels.shared_scan import scan_shared
from heddle.engines.vector.kernels.sum_order import SumOrder
from heddle.engines.vector.search import SortedHits, ascending

NO_HEAP_INIT = 1024  # IndexIVF::PARALLEL_MODE_NO_HEAP_INIT
SEQUENTIAL, BY_QUERY = 0, 3
# What FastScan's `implem` says: list by list for all queries (its own choice), or one query after
# another. The latter is faster for one query, and where the codes stay in a cache; many queries
# among more codes share what is read from memory (docs/development/notebook.md).
BY_LIST, QUERY_AFTER_QUERY = 0, 11
CACHED_BYTES = 8 << 20  # codes of all lists
CANDIDATES_MIN, CANDIDATES_PER_HIT = 100, 10  # of coded vectors, to be refined
SPARE_MAX = 4000  # candidates beyond the hits wanted


class IvfScanner:
    """Scans the lists of one index, which may grow and shrink between the scans.

    `hot` answers for some lists beside the host, where there is such a device.

    Args:
        live: the index; it may be empty.
        nprobe: lists a query scans by default; None = by the size of the index.
        threads: for one scan.
    """

    def __init__(self, live: LiveIndex, nprobe: int | None = None, threads: int = 1) -> None:
        faiss.omp_set_num_threads(threads)
        self._live, self._nprobe = live, nprobe
        self._team = ScanTeam(threads)
        self._ivf = live.ivf
        self._list_sizes = live.list_sizes()
        self.hot: ListDevice | None = None
        self._memory: ListMemory | None = None  # where our kernel scans
        self._order = SumOrder.AVX2  # of that kernel
        self._params = faiss.SearchParametersIVF()
        # No kind here uses the distances to centroids: FAISS asks for them but doesn't read them.
        self._no_distances = np.zeros(0, np.float32)
        self._every_id = np.zeros(0, np.uint8)
        self._centroids = np.zeros((0, 0), np.float32)
        if self._ivf is None:
            return
        self._centroids = self._ivf.quantizer.reconstruct_n(0, self._ivf.nlist)
        mode = (BY_QUERY if threads > 1 else SEQUENTIAL) | NO_HEAP_INIT
        is_merged = self.kind.stepping is Stepping.MERGE
        self._ivf.parallel_mode = SEQUENTIAL if is_merged else mode

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
    def shares_lists(self) -> bool:
        """Whether queries that want the same list in one scan share its cost."""
        return self._memory is not None

    @property
    def kind(self) -> IvfKind:
        """The kind of its index, which isn't empty."""
        kind = kind_of(self._ivf)
        assert kind is not None, "an index of another kind is served"
        return kind

    @property
    def is_coded(self) -> bool:
        """Whether the lists hold codes, whose hits are refined."""
        return self._live.refine is not None

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

    def centroid_distances(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the squared distances of prepared queries to all centroids, [n, nlist]."""
        distances = np.empty((len(queries), len(self._centroids)), np.float32)
        centroid_distances(self._centroids, queries, distances)
        return distances

    def coarse(self, queries: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
        """Return the nearest lists of each prepared query, nearest first, [n, nprobe]."""
        return nearest(self.centroid_distances(queries), np.arange(len(self._centroids)), nprobe)[1]

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> NDArray[np.int64] | None:
        """Scan these lists (-1 = none) for each prepared query; updates the heaps in place."""
        if self.hot is not None and allowed is None:  # the device knows nothing of filters
            return self.hot.scan(queries, lists, distances, labels, self.scan_on_host)
        self.scan_on_host(queries, lists, distances, labels, allowed)
        return None

    def scan_on_host(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> None:
        """Scan these lists as `scan` does, without a device."""
        if self._memory is not None:
            self._scan_shared(self._memory, queries, lists, distances, labels, allowed)
            return
        selector = None if allowed is None else _selector(allowed)
        if self.kind.stepping is not Stepping.MERGE:
            self._search(queries, lists, distances, labels, selector)
            return
        found = (np.empty_like(distances), np.empty_like(labels))
        self._search(queries, lists, *found, selector)
        found[0][found[1] < 0] = np.inf  # FAISS says the largest float there
        _merge(distances, labels, *found)

    def _scan_shared(
        self,
        memory: ListMemory,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None,
    ) -> None:
        memory.locate(lists)
        bits = self._every_id if allowed is None else allowed.bits
        places = memory.codes, memory.ids, memory.sizes
        order = int(self._order)

        # A lambda, for annotations of a function made here would be evaluated in each step.
        self._team.scan(
            lambda lists, distances, labels: scan_shared(
                *places, bits, queries, lists, distances, labels, order
            ),
            memory.bytes_of,
            lists,
            distances,
            labels,
        )

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
        is_nearer[~are_settled(distances, topk)] = True
        rows = np.where(is_nearer, labels, -1)
        found, rows = nearest(refine.distances(queries, rows), rows, topk)
        return found, refine.chunk_ids_at(rows)

    def nearest_of(self, queries: NDArray[np.float32], allowed: Allowed, topk: int) -> SortedHits:
        """Compare every allowed vector and return the nearest, [n, topk] each."""
        refine = self._live.refine
        assert refine is not None, "without a refine store lists are scanned"
        rows = np.tile(allowed.labels, (len(queries), 1))
        missing = max(0, topk - rows.shape[1])
        distances, rows = nearest(refine.distances(queries, rows), rows, topk - missing)
        distances = np.pad(distances, ((0, 0), (0, missing)), constant_values=np.inf)
        rows = np.pad(rows, ((0, 0), (0, missing)), constant_values=-1)
        return distances, refine.chunk_ids_at(rows)

    def search_at_once(self, queries: NDArray[np.float32], topk: int, nprobe: int) -> SortedHits:
        """Search without steps: FAISS scans every list of every query in one call."""
        queries = self.prepared(queries)
        lists = self.coarse(queries, min(nprobe, len(self._list_sizes)))
        return self.hits(queries, *self.heaps_at_once(queries, lists, topk), topk)

    def heaps_at_once(
        self, queries: NDArray[np.float32], lists: NDArray[np.int64], topk: int
    ) -> SortedHits:
        """Return the heaps of prepared queries after one scan of all their lists, unordered."""
        distances, labels = empty_heaps(len(queries), self.heap_size(topk))
        if self._memory is not None:
            self.scan(queries, lists, distances, labels)
            return distances, labels
        mode, self._ivf.parallel_mode = self._ivf.parallel_mode, SEQUENTIAL
        try:
            self._search(queries, lists, distances, labels)
        finally:
            self._ivf.parallel_mode = mode
        distances[labels < 0] = np.inf
        return distances, labels

    def share_scans(self, order: SumOrder | None) -> None:
        """Scan by our kernel, which sums distances in this order; None = FAISS scans."""
        self._memory = None
        if order is not None:
            self._memory, self._order = ListMemory(self._ivf), order

    def lists_will_change(self) -> None:
        """Forget where the vectors are: some are about to come or go."""
        if self._memory is not None:
            self._memory.forget()

    def lists_changed(self) -> None:
        """Count the vectors anew after some have come or gone."""
        self._list_sizes = self._live.list_sizes()
        if self.hot is not None:
            self.hot.index_changed()

    def _search(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        selector: Any = None,  # noqa: ANN401 - FAISS's own
    ) -> None:
        """Have FAISS scan the lists into these arrays, for what the selector lets pass."""
        if lists.size > self._no_distances.size:
            self._no_distances = np.zeros(lists.size, np.float32)
        queries, lists = np.ascontiguousarray(queries), np.ascontiguousarray(lists)
        self._params.nprobe = lists.shape[1]
        self._params.sel = selector
        if isinstance(self._ivf, faiss.IndexIVFFastScan):
            is_cached = self._live.count * self._ivf.code_size <= CACHED_BYTES
            is_each = is_cached or len(queries) == 1
            self._ivf.implem = QUERY_AFTER_QUERY if is_each else BY_LIST
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


def are_settled(distances: NDArray[np.float32], topk: int) -> NDArray[np.bool_]:
    """Return for which rows of candidates [n, k] the codes tell which are to be refined, [n].

    They don't where fewer than the hits wanted are nearer than the last candidate and more
    vectors may lie just as far: of vectors with equal codes any may have become a candidate.
    """
    last = distances.max(axis=1)
    nearer = (distances < last[:, None]).sum(axis=1)
    settled: NDArray[np.bool_] = (nearer >= topk) | np.isinf(last)
    return settled


def empty_heaps(rows: int, size: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return heaps that hold nothing yet, [rows, size]."""
    return np.full((rows, size), np.inf, np.float32), np.full((rows, size), -1, np.int64)


def _selector(allowed: Allowed) -> Any:  # noqa: ANN401 - FAISS's own
    """Return what has FAISS pass over all that isn't allowed; it lives as long as `allowed`."""
    return faiss.IDSelectorBitmap(len(allowed.bits), faiss.swig_ptr(allowed.bits))


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
