"""The exact mode with a first threshold, beyond which no vector is compared to its end."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from benchmarks.support.fixed_source import FixedSource
from benchmarks.support.search_methods import K, Labels, Method, Vectors
from benchmarks.support.search_set import SearchSet
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.early_stop.orders import CACHED_HITS
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.scanner import IvfScanner
from heddle.engines.vector.ivf.stepping_check import checked_scanner

ROUNDING: Final = 1e-5  # of a squared distance, at most, between two ways to sum it


def begun_with(data: SearchSet, before: Vectors) -> Iterable[Method]:
    """Yield the exact mode with each first threshold; `before` are the searches before, [q, d]."""
    source = FixedSource(data.vectors)
    scanner = checked_scanner(LiveIndex.build(source, kind=IndexKind.PANORAMA))
    nlist = len(scanner.list_sizes)
    cached = scanner.search_at_once(before, CACHED_HITS, nlist)[1] - 1
    final = scanner.search_at_once(data.queries, K, nlist)[0][:, -1]

    def kth_cached(queries: Vectors) -> Vectors:
        away = data.vectors[cached] - queries[:, None]
        far: Vectors = np.partition(np.einsum("qhd,qhd->qh", away, away), K - 1, axis=1)
        return far[:, K - 1]

    for name, threshold in (
        ("exact, unseeded", lambda queries: np.full(len(queries), np.inf, np.float32)),
        ("exact, seeded", kth_cached),
        ("exact, best seed", lambda queries: final),
    ):
        yield Method(name, _SeededSearch(scanner, threshold), (nlist,))


class _SeededSearch:
    """Searches that pass over all that is farther than a threshold from the start.

    A scan takes what is nearer than the farthest hit so far, so hits that aren't there yet, as far
    away as the threshold and its rounding, are all replaced.
    """

    def __init__(self, scanner: IvfScanner, threshold: Callable[[Vectors], Vectors]) -> None:
        self._scanner, self._threshold = scanner, threshold

    def __call__(self, queries: Vectors, setting: int) -> Labels:
        prepared = self._scanner.prepared(queries)
        lists = self._scanner.coarse(prepared, setting)
        bounds = self._threshold(queries) * np.float32(1 + ROUNDING) + np.float32(ROUNDING)
        distances = np.repeat(bounds[:, None], K, axis=1)
        labels = np.full(distances.shape, -1, np.int64)
        self._scanner.scan(prepared, lists, distances, labels)
        return self._scanner.hits(prepared, distances, labels, K)[1]
