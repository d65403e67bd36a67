"""Whether searches in steps find the same as searches at once: by the kind of index, then tried.

An index is served after both only. Most kinds of FAISS index silently give other results with
carried heaps.
"""

import logging
from collections.abc import Callable

import faiss
import numpy as np
from numpy.typing import NDArray

from heddle.core.errors import ConfigError
from heddle.engines.vector.ivf.hot.port import ListDevice
from heddle.engines.vector.ivf.ivf_kind import IVF_KINDS, Stepping, kind_of
from heddle.engines.vector.ivf.live_index import IvfIndex, LiveIndex
from heddle.engines.vector.ivf.scanner import (
    BY_QUERY,
    NO_HEAP_INIT,
    SEQUENTIAL,
    IvfScanner,
    are_settled,
    empty_heaps,
)
from heddle.engines.vector.ivf.scheduler import NO_LIST
from heddle.engines.vector.kernels.sum_order import SumOrder

log = logging.getLogger(__name__)

SUM_ORDERS = tuple(SumOrder)  # which the self-test tries
SELF_TEST_ROWS, SELF_TEST_LISTS, SELF_TEST_K = 4, 8, 10


def checked_scanner(
    live: LiveIndex,
    nprobe: int | None = None,
    threads: int = 1,
    make_hot: Callable[[IvfIndex], ListDevice] | None = None,
) -> IvfScanner:
    """Return a scanner of an index, empty or one that can be searched in steps.

    Args:
        live: the index.
        nprobe: lists a query scans by default; None = by the size of the index.
        threads: for one scan.
        make_hot: puts a device beside an index, for its hot lists; None = there is none.

    Raises:
        ConfigError: the index is of a kind that can't be searched in steps, or the self-test
            found other results than a one-shot search.
    """
    ivf = live.ivf
    if ivf is None:
        return IvfScanner(live, nprobe, threads)
    check_steppable(ivf)
    scanner = IvfScanner(live, nprobe, threads)
    if scanner.kind.stepping is Stepping.SHARED and not _shares_scans(scanner):
        log.info("FAISS sums distances in an unknown order here: queries share no scans")
    if not steps_change_nothing(scanner):
        raise ConfigError(
            f"FAISS {faiss.__version__} searches in steps with other results than at once; "
            "install the faiss-cpu release that Heddle was tested with (1.15)"
        )
    if make_hot is not None:
        scanner.hot = make_hot(ivf)
    return scanner


def check_steppable(ivf: IvfIndex) -> None:
    """Refuse an index that would be searched wrongly in steps.

    Raises:
        ConfigError: with the reason.
    """
    name, kind = type(ivf).__name__, kind_of(ivf)
    if kind is None:
        raise ConfigError(
            f"{name} is not searched in steps: most kinds of index silently give other results "
            f"with carried heaps; build one of {', '.join(IVF_KINDS)}"
        )
    if ivf.metric_type != faiss.METRIC_L2:
        raise ConfigError("the index has another metric than L2; normalise vectors and use L2")
    if kind.stepping is Stepping.MERGE and ivf.by_residual:
        raise ConfigError(
            f"{name} encodes residuals, so its distances depend on the lists that are scanned "
            "together; set by_residual to False before training"
        )
    mode = int(ivf.parallel_mode) & ~NO_HEAP_INIT
    if mode not in (SEQUENTIAL, BY_QUERY):
        raise ConfigError(
            f"parallel_mode {mode} keeps heaps for each thread that are never started, so results "
            "would be silently wrong; set parallel_mode to 0 or 3"
        )


def steps_change_nothing(scanner: IvfScanner) -> bool:
    """Search a few random queries at once and in ragged steps; return whether both agree."""
    rng = np.random.default_rng(0)
    queries = scanner.prepared(_queries(scanner))
    lists = scanner.coarse(queries, min(SELF_TEST_LISTS, len(scanner.list_sizes)))
    at_once = scanner.heaps_at_once(queries, lists, SELF_TEST_K)
    n = len(queries)
    heaps = empty_heaps(n, scanner.heap_size(SELF_TEST_K))
    position = np.zeros(n, np.int64)
    turns = np.arange(lists.shape[1])
    while (position < lists.shape[1]).any():
        stop = position + rng.integers(0, 4, n)
        is_now = (turns >= position[:, None]) & (turns < stop[:, None])
        scanner.scan(queries, np.where(is_now, lists, NO_LIST), *heaps)
        position = stop
    if not np.array_equal(np.sort(heaps[0]), np.sort(at_once[0])):
        return False
    rows = are_settled(heaps[0], SELF_TEST_K) if scanner.is_coded else np.ones(n, bool)
    distances, labels = scanner.hits(queries, *heaps, SELF_TEST_K)
    expected = scanner.hits(queries, *at_once, SELF_TEST_K)
    return np.array_equal(distances[rows], expected[0][rows]) and np.array_equal(
        labels[rows], expected[1][rows]
    )


def _shares_scans(scanner: IvfScanner) -> bool:
    """Scan by our kernel if one of its orders of sums is FAISS's; return whether one is.

    Equal means bit for bit. Without one FAISS scans for each query: the hits are the same, only
    no query shares what another one reads.
    """
    queries = _queries(scanner)
    expected, _ = scanner.search_at_once(queries, SELF_TEST_K, SELF_TEST_LISTS)
    for order in SUM_ORDERS:
        scanner.share_scans(order)
        found, _ = scanner.search_at_once(queries, SELF_TEST_K, SELF_TEST_LISTS)
        if np.array_equal(expected, found):
            return True
    scanner.share_scans(None)
    return False


def _queries(scanner: IvfScanner) -> NDArray[np.float32]:
    """Return a few random queries of unit length, [n, d]."""
    assert scanner.dims is not None, "an index without dimensions"
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((SELF_TEST_ROWS, scanner.dims), dtype=np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    return queries


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
