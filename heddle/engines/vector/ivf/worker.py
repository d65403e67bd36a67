"""FAISS behind the vector engine: IVF lists scanned piece by piece.

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

import logging
from collections.abc import Callable, Collection
from enum import Enum
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.allowed import Allowed, KeptScopes, are_few
from heddle.engines.vector.corpus.embedder_guard import EmbedderGuard
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.corpus.source import VectorSource, store_in
from heddle.engines.vector.corpus.word_searches import WordSearches
from heddle.engines.vector.files.index_kind import nprobe_for
from heddle.engines.vector.files.refine_store import PIECE_VECTORS
from heddle.engines.vector.ivf.chunk_places import ChunkPlaces, Places
from heddle.engines.vector.ivf.early_stop.known_hits import KnownHits
from heddle.engines.vector.ivf.hot.port import ListDevice
from heddle.engines.vector.ivf.list_memory import ListMemory
from heddle.engines.vector.ivf.live_index import IvfIndex, LiveIndex
from heddle.engines.vector.ivf.nearest import nearest
from heddle.engines.vector.ivf.scheduler import NO_LIST
from heddle.engines.vector.kernels.scan_kernels import centroid_distances
from heddle.engines.vector.kernels.shared_scan import scan_shared
from heddle.engines.vector.kernels.sum_order import SumOrder
from heddle.engines.vector.recall.exact_index import Piece
from heddle.engines.vector.search import SortedHits, ascending

log = logging.getLogger(__name__)

NO_HEAP_INIT = 1024  # IndexIVF::PARALLEL_MODE_NO_HEAP_INIT
SEQUENTIAL, BY_QUERY = 0, 3
# What FastScan's `implem` says: list by list for all queries (its own choice), or one query after
# another. The latter is faster for one query, and where the codes stay in a cache; many queries
# among more codes share what is read from memory (docs/development/notebook.md).
BY_LIST, QUERY_AFTER_QUERY = 0, 11
CACHED_BYTES = 8 << 20  # codes of all lists
CANDIDATES_MIN, CANDIDATES_PER_HIT = 100, 10  # of coded vectors, to be refined
SPARE_MAX = 4000  # candidates beyond the hits wanted
SUM_ORDERS = tuple(SumOrder)  # which the self-test tries
SELF_TEST_ROWS, SELF_TEST_LISTS, SELF_TEST_K = 4, 8, 10


class Stepping(Enum):
    """How a search of an index goes on after a sub-stage."""

    SHARED = "shared"  # our kernel goes on with the heaps; queries share a list that is read
    CARRY = "carry"  # FAISS goes on with the heaps of the sub-stage before
    MERGE = "merge"  # each sub-stage finds its own nearest, which are merged


CAPABILITIES = {
    "IndexIVFFlat": Stepping.SHARED,
    "IndexIVFFlatPanorama": Stepping.CARRY,
    "IndexIVFPQFastScan": Stepping.MERGE,
}
"""The kinds that can be searched in steps. Others give other results without a word, or were
never compared; a self-test holds each index to it when it is opened."""


VECTORS_PER_LOOK = {
    "IndexIVFFlat": 2_000,
    "IndexIVFFlatPanorama": 4_000,
    "IndexIVFPQFastScan": 60_000,
}
"""About how many vectors are scanned in the time that a look at a search takes."""


class FaissWorker:
    """Scans the lists of one index, which follows the corpus that it is derived from.

    Args:
        live: the index.
        source: the corpus, which other processes may write to as well.
        nprobe: clusters a query scans by default; None = by the size of the index.
        threads: FAISS threads for one scan.
        rebuild: clusters the corpus anew when it has outgrown the index; None = never.
        make_hot: puts a device beside an index, for its hot lists; None = there is none.

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
        rebuild: Rebuild[LiveIndex] | None = None,
        make_hot: Callable[[IvfIndex], ListDevice] | None = None,
    ) -> None:
        faiss.omp_set_num_threads(threads)
        self._live, self._source = live, source
        self.words = WordSearches(source)
        self._nprobe, self._threads = nprobe, threads
        self._rebuild = rebuild
        self._make_hot = make_hot
        self._hot: ListDevice | None = None
        self._embedder = EmbedderGuard(source)
        self._params = faiss.SearchParametersIVF()
        # No kind here uses the distances to centroids: FAISS asks for them but doesn't read them.
        self._no_distances = np.zeros(0, np.float32)
        self._every_id = np.zeros(0, np.uint8)
        self._filters = KeptScopes(source, self._allowed)
        self._list_sizes = np.zeros(0, np.int64)
        self._places = ChunkPlaces(live)
        self._ivf: IvfIndex = None
        self._memory: ListMemory | None = None  # where our kernel scans
        self._is_prepared = False
        self._order = SumOrder.AVX2  # of that kernel
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
    def shares_lists(self) -> bool:
        """Whether queries that want the same list in one scan share its cost."""
        return self._memory is not None

    @property
    def vectors_per_look(self) -> int:
        """How many vectors are scanned in the time it takes to ask whether a search may stop."""
        return VECTORS_PER_LOOK[type(self._ivf).__name__]

    @property
    def notes(self) -> tuple[str, ...]:
        """What every search is told: where it goes another way than meant."""
        problem = "" if self._rebuild is None else self._rebuild.problem
        return (problem,) if problem else ()

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
        return nearest(distances, np.arange(len(self._centroids)), nprobe)[1]

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> NDArray[np.int64] | None:
        """Scan these lists (-1 = none) for each prepared query; updates the heaps in place."""
        if self._hot is not None and allowed is None:  # the device knows nothing of filters
            return self._hot.scan(queries, lists, distances, labels, self._scan_lists)
        self._scan_lists(queries, lists, distances, labels, allowed)
        return None

    def _scan_lists(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> None:
        """Do so on the host."""
        if self._memory is not None:
            self._scan_shared(self._memory, queries, lists, distances, labels, allowed)
            return
        selector = None if allowed is None else _selector(allowed)
        if CAPABILITIES[type(self._ivf).__name__] is not Stepping.MERGE:
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
        scan_shared(
            memory.codes,
            memory.ids,
            memory.sizes,
            bits,
            queries,
            lists,
            distances,
            labels,
            int(self._order),
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

    def allowed(self, scope: SearchScope) -> Allowed | None:
        """Return what a scope lets a search find; None = everything."""
        return self._filters.at(scope, self._live.revision)

    def _allowed(self, chunk_ids: NDArray[np.int64]) -> Allowed:
        refine = self._live.refine
        if refine is None:  # every list of such an index is scanned, which leaves nothing out
            return Allowed.of(chunk_ids, is_few=False)
        rows = refine.rows_of(chunk_ids)
        return Allowed.of(rows, is_few=are_few(len(rows), self._live.count))

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

    def compare_piece(
        self,
        query: NDArray[np.float32],
        first: int,
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> Piece:
        """Compare a prepared query with the next vectors exactly; see `ComparedIndex`.

        A piece begins at a row of the refine store, or at a list.
        """
        if self._live.refine is not None:
            return self._live.refine.compare_piece(query, first, distances, labels)
        ends = np.cumsum(self._list_sizes[first:])
        count = 1 + int(np.searchsorted(ends, PIECE_VECTORS))
        lists = np.arange(first, min(first + count, len(self._list_sizes)))
        if len(lists):
            self._scan_lists(query, lists[None], distances, labels)
        stop = first + len(lists)
        return Piece(stop % len(self._list_sizes), int(self._list_sizes[lists].sum()))

    def centroid_distances(
        self, queries: NDArray[np.float32], lists: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return the squared distances of each query to the centroids of its lists, [n, w]."""
        distances = np.empty((len(queries), len(self._centroids)), np.float32)
        centroid_distances(self._centroids, queries, distances)
        return np.take_along_axis(distances, lists, axis=1)

    def lists_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the inverted list of each chunk, as of a while ago, [m]; -1 = unknown."""
        return self._places.lists_of(chunk_ids)

    def known(self, query: NDArray[np.float32], chunk_ids: NDArray[np.int64]) -> KnownHits:
        """Compare a prepared query [1, d] with chunks as far as the index has them, [1, h]."""
        places = self._places.of(chunk_ids)
        if self._live.refine is not None:
            distances = self._live.refine.distances(query, places.labels[None])
        else:
            distances = self._distances_at(places, query)[None]
        chunk_ids = np.where(places.labels < 0, -1, chunk_ids)
        return KnownHits(chunk_ids[None], places.labels[None], distances)

    def _distances_at(self, places: Places, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the squared distances to whole vectors, inf where there is none, [m]."""
        vectors = np.full((len(places.lists), query.shape[1]), np.inf, np.float32)
        for number in np.flatnonzero(places.labels >= 0).tolist():
            self._ivf.reconstruct_from_offset(
                int(places.lists[number]),
                int(places.offsets[number]),
                faiss.swig_ptr(vectors[number]),
            )
        differences = vectors - query
        distances: NDArray[np.float32] = np.einsum("md,md->m", differences, differences)
        return distances

    def newest_revision(self) -> int:
        """Return the newest revision that was committed to the corpus, here or elsewhere."""
        return self._source.revision

    def covers(self, revision: int) -> bool:
        """Whether the index has all of a revision, and no better one is to be taken or tried."""
        rebuild = self._rebuild
        has_work = rebuild is not None and (rebuild.is_ready or rebuild.is_due)
        return self._is_prepared and self._live.revision >= revision and not has_work

    def follow(self, *, in_flight: bool, unlimited: Collection[SearchScope] = ()) -> int:
        """Bring a piece of what the corpus has written into the index; return how many changes.

        Raises:
            ConfigError: the corpus was emptied and made with another embedder.
        """
        if self._rebuild is not None and self._rebuild.is_ready:
            if in_flight:
                return 0
            self._serve(self._rebuild)
        if not self._is_prepared:
            self._prepare()
        self._embedder.check(has_vectors=self._live.index is not None)
        had_index = self._live.index is not None
        if self._memory is not None:
            self._memory.forget()  # before: what fails half-way has moved vectors, too
        try:
            changes = self._live.advance(
                self._source,
                may_delete=not in_flight,
                may_add=lambda: not any(map(self._source.is_limited, unlimited)),
            )
        except Exception:
            self._lists_changed()  # some of them, perhaps: it begins again, and finds less to do
            raise
        if not had_index:
            self._prepare()
        elif changes:
            self._lists_changed()
            self._places.changed(changes)
        rebuild, live = self._rebuild, self._live
        if rebuild is not None and (live.is_outgrown or live.wants_saving or rebuild.is_due):
            rebuild.start()
        return changes

    def store(self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> int:
        """Commit vectors to the corpus; return its revision, which the index will follow."""
        return store_in(self._source, chunk_ids, vectors)

    def close(self) -> None:
        """Wait for the index that is being made, end searches by words, close the corpus."""
        self.words.close()
        if self._rebuild is not None:
            self._rebuild.wait()
        self._source.close()

    def _lists_changed(self) -> None:
        self._list_sizes = self._live.list_sizes()
        if self._hot is not None:
            self._hot.index_changed()

    def _serve(self, rebuild: Rebuild[LiveIndex]) -> None:
        """Search the index that was made, or the one before where that can't be searched."""
        before, self._live = self._live, rebuild.take()
        try:
            self._prepare()
        except Exception as error:
            self._live = before
            rebuild.refuse(error)

    def _prepare(self) -> None:
        """Check that the index can be searched in steps, and switch it over.

        No search begins before that has succeeded: what raises is told to those that wait.
        """
        self._is_prepared = False
        self._switch_over()
        self._is_prepared = True

    def _switch_over(self) -> None:
        self._list_sizes = self._live.list_sizes()
        self._filters.clear()  # their labels are those of the index before
        self._places = ChunkPlaces(self._live)
        self._ivf = ivf = self._live.ivf
        self._hot = self._memory = None
        if ivf is None:
            return
        check_steppable(ivf)
        self._centroids = ivf.quantizer.reconstruct_n(0, ivf.nlist)
        mode = BY_QUERY if self._threads > 1 else SEQUENTIAL
        stepping = CAPABILITIES[type(ivf).__name__]
        ivf.parallel_mode = SEQUENTIAL if stepping is Stepping.MERGE else mode | NO_HEAP_INIT
        is_shared = stepping is Stepping.SHARED and self._threads == 1
        if is_shared and not self._uses_own_kernel():
            log.info("FAISS sums distances in an unknown order here: queries share no scans")
        if not self._steps_change_nothing():
            raise ConfigError(
                f"FAISS {faiss.__version__} searches in steps with other results than at once; "
                "install the faiss-cpu release that Heddle was tested with (1.15)"
            )
        if self._make_hot is not None:
            self._hot = self._make_hot(ivf)

    def _uses_own_kernel(self) -> bool:
        """Scan by our kernel if one of its orders of sums is FAISS's; return whether one is.

        Equal means bit for bit. Without one FAISS scans for each query: the hits are the same, only
        no query shares what another one reads.
        """
        queries = self._test_queries()
        expected, _ = self.search_at_once(queries, SELF_TEST_K, SELF_TEST_LISTS)
        self._memory = ListMemory(self._ivf)
        for self._order in SUM_ORDERS:
            found, _ = self.search_at_once(queries, SELF_TEST_K, SELF_TEST_LISTS)
            if np.array_equal(expected, found):
                return True
        self._memory = None
        return False

    def _test_queries(self) -> NDArray[np.float32]:
        """Return a few random queries of unit length, [n, d]."""
        assert self.dims is not None, "an index without dimensions"
        rng = np.random.default_rng(0)
        queries = rng.standard_normal((SELF_TEST_ROWS, self.dims), dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        return queries

    def _steps_change_nothing(self) -> bool:
        """Search a few random queries at once and in ragged steps; return whether both agree."""
        rng = np.random.default_rng(0)
        queries = self._test_queries()
        queries = self.prepared(queries)
        lists = self.coarse(queries, min(SELF_TEST_LISTS, self._live.nlist))
        at_once = self._heaps_at_once(queries, lists, SELF_TEST_K)
        n = len(queries)
        heaps = _empty_heaps(n, self.heap_size(SELF_TEST_K))
        position = np.zeros(n, np.int64)
        turns = np.arange(lists.shape[1])
        while (position < lists.shape[1]).any():
            stop = position + rng.integers(0, 4, n)
            is_now = (turns >= position[:, None]) & (turns < stop[:, None])
            self.scan(queries, np.where(is_now, lists, NO_LIST), *heaps)
            position = stop
        if not np.array_equal(np.sort(heaps[0]), np.sort(at_once[0])):
            return False
        rows = np.ones(n, bool)
        if self._live.refine is not None:
            rows = are_settled(heaps[0], SELF_TEST_K)
        distances, labels = self.hits(queries, *heaps, SELF_TEST_K)
        expected = self.hits(queries, *at_once, SELF_TEST_K)
        return np.array_equal(distances[rows], expected[0][rows]) and np.array_equal(
            labels[rows], expected[1][rows]
        )

    def search_at_once(self, queries: NDArray[np.float32], topk: int, nprobe: int) -> SortedHits:
        """Search without steps: FAISS scans every list of every query in one call."""
        queries = self.prepared(queries)
        lists = self.coarse(queries, min(nprobe, self._live.nlist))
        return self.hits(queries, *self._heaps_at_once(queries, lists, topk), topk)

    def _heaps_at_once(
        self, queries: NDArray[np.float32], lists: NDArray[np.int64], topk: int
    ) -> SortedHits:
        """Return the heaps of prepared queries after one scan of all their lists, unordered."""
        distances, labels = _empty_heaps(len(queries), self.heap_size(topk))
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


def are_settled(distances: NDArray[np.float32], topk: int) -> NDArray[np.bool_]:
    """Return for which rows of candidates [n, k] the codes tell which are to be refined, [n].

    They don't where fewer than the hits wanted are nearer than the last candidate and more
    vectors may lie just as far: of vectors with equal codes any may have become a candidate.
    """
    last = distances.max(axis=1)
    nearer = (distances < last[:, None]).sum(axis=1)
    settled: NDArray[np.bool_] = (nearer >= topk) | np.isinf(last)
    return settled


def _empty_heaps(rows: int, size: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
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
