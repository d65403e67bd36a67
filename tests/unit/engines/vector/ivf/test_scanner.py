"""Inverted lists are scanned as FAISS does it with any others beside them."""

import numpy as np
import pytest

from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf import scanner as scanner_module
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.scanner import are_settled
from heddle.engines.vector.ivf.stepping_check import checked_scanner, one_shot


def test_a_querys_clusters_do_not_depend_on_its_neighbours(tools):
    source = tools.Source(tools.clustered(3000))
    scanner = checked_scanner(LiveIndex.build(source))
    queries = tools.clustered(40, seed=8)
    together = scanner.coarse(queries, 10)
    alone = np.concatenate([scanner.coarse(queries[i : i + 1], 10) for i in range(40)])
    np.testing.assert_array_equal(together, alone)


def test_the_default_nprobe_is_everything_in_a_small_corpus(tools):
    source = tools.Source(tools.clustered(2000))
    live = LiveIndex.build(source)
    assert checked_scanner(live).nprobe_default == live.nlist == 31
    assert checked_scanner(live, nprobe=5).nprobe_default == 5


@pytest.fixture(scope="module")
def source(tools):
    return tools.Source(tools.clustered(3000))


def scanner_of(source, kind):
    return checked_scanner(LiveIndex.build(source, kind=kind))


def exact(source, queries, k):
    """Sorted squared distances to the k nearest vectors, [n, k]."""
    vectors = np.stack([vector for _, vector in source.rows.values()])
    return np.sort(((queries[:, None] - vectors) ** 2).sum(-1), axis=1)[:, :k]


def test_whole_vectors_are_searched_as_faiss_does_it(tools, source):
    live = LiveIndex.build(source)
    scanner, queries = checked_scanner(live), tools.clustered(30, seed=4)
    for nprobe in (1, 7, live.nlist):
        found, expected = (
            scanner.search_at_once(queries, 9, nprobe),
            one_shot(live.index, queries, 9, nprobe),
        )
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


def test_panorama_over_all_lists_is_exact(tools, source):
    scanner, queries = scanner_of(source, IndexKind.PANORAMA), tools.clustered(30, seed=4)
    assert scanner.nprobe_default == len(scanner.list_sizes)
    distances, _ = scanner.search_at_once(queries, 9, scanner.nprobe_default)
    np.testing.assert_allclose(distances, exact(source, queries, 9), rtol=1e-4, atol=1e-5)


def test_codes_are_refined_to_the_distances_of_half_precision(tools, source):
    scanner, near = scanner_of(source, IndexKind.PQ), tools.clustered(60, seed=4)
    queries = tools.clustered(3000)[:60] + 0.1 * near
    distances, labels = scanner.search_at_once(queries, 5, len(scanner.list_sizes))
    for query, row, found in zip(queries, labels, distances, strict=True):
        vectors = np.stack([source.rows[i][1] for i in row]).astype(np.float16)
        expected = ((query - vectors.astype(np.float32)) ** 2).sum(-1)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    is_right = np.isclose(distances, exact(source, queries, 5), rtol=1e-2, atol=1e-3)
    assert is_right.mean() > 0.9


def test_codes_settle_what_is_refined_unless_too_few_are_nearer_than_the_last():
    candidates = np.array([[1, 2, 3, 3], [1, 3, 3, 3], [1, 3, np.inf, np.inf]], np.float32)
    assert are_settled(candidates, 2).tolist() == [True, False, True]
    assert are_settled(candidates, 3).tolist() == [False, False, True]  # no more are there


def test_what_a_query_finds_by_its_codes_does_not_depend_on_its_neighbours(
    tools, source, monkeypatch
):
    monkeypatch.setattr(scanner_module, "CACHED_BYTES", 0)  # so that many are scanned list by list
    scanner, queries = scanner_of(source, IndexKind.PQ), tools.clustered(40, seed=8)
    together = scanner.search_at_once(queries, 5, 7)
    alone = [scanner.search_at_once(queries[i : i + 1], 5, 7) for i in range(40)]
    for batch, each in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(batch, np.concatenate(each))


def test_many_equal_vectors_are_all_found(tools):
    copies = np.repeat(tools.clustered(8)[:1], 600, axis=0)
    others = tools.clustered(1000, seed=5)
    source = tools.Source(np.concatenate([copies, others]))
    scanner = scanner_of(source, IndexKind.PQ)
    distances, labels = scanner.search_at_once(copies[:1], 20, len(scanner.list_sizes))
    assert (labels > 0).all()
    np.testing.assert_allclose(distances, 0, atol=1e-5)
