import faiss
import numpy as np
import pytest

from heddle.core.errors import ConfigError
from heddle.engines.vector import worker as worker_module
from heddle.engines.vector.index_kind import IndexKind
from heddle.engines.vector.live_index import LiveIndex
from heddle.engines.vector.worker import FaissWorker, Stepping, check_steppable, one_shot


def ivf(tools, kind="IVF4,Flat", metric=faiss.METRIC_L2):
    index = faiss.index_factory(tools.dims, kind, metric)
    index.cp.min_points_per_centroid = 1
    vectors = tools.clustered(400)
    index.train(vectors)
    index.add(vectors)
    return index


@pytest.mark.parametrize("kind", ["IVF4,PQ4x8", "IVF4,SQ8"])
def test_other_kinds_of_index_are_refused(tools, kind):
    with pytest.raises(ConfigError, match="build one of IndexIVFFlat"):
        check_steppable(ivf(tools, kind))


@pytest.mark.parametrize("mode", [1, 2, 1 | 1024, 2 | 1024])
def test_parallel_modes_that_fail_silently_are_refused(tools, mode):
    index = ivf(tools)
    index.parallel_mode = mode
    with pytest.raises(ConfigError, match="parallel_mode"):
        FaissWorker(LiveIndex(index, 0), tools.Source())


def test_inner_product_is_refused(tools):
    with pytest.raises(ConfigError, match="metric"):
        check_steppable(ivf(tools, metric=faiss.METRIC_INNER_PRODUCT))


def test_the_self_test_notices_a_faiss_that_forgets_the_heaps(tools, monkeypatch):
    index = ivf(tools)
    scan = FaissWorker.scan

    def forgetful(self, queries, lists, distances, labels):
        distances[:], labels[:] = np.inf, -1
        scan(self, queries, lists, distances, labels)

    monkeypatch.setattr(FaissWorker, "scan", forgetful)
    with pytest.raises(ConfigError, match="other results"):
        FaissWorker(LiveIndex(index, 0), tools.Source())


def test_a_querys_clusters_do_not_depend_on_its_neighbours(tools):
    source = tools.Source(tools.clustered(3000))
    worker = FaissWorker(LiveIndex.build(source), source)
    queries = tools.clustered(40, seed=8)
    together = worker.coarse(queries, 10)
    alone = np.concatenate([worker.coarse(queries[i : i + 1], 10) for i in range(40)])
    np.testing.assert_array_equal(together, alone)


def test_the_default_nprobe_is_everything_in_a_small_corpus(tools):
    source = tools.Source(tools.clustered(2000))
    live = LiveIndex.build(source)
    assert FaissWorker(live, source).nprobe_default == live.nlist == 31
    assert FaissWorker(live, source, nprobe=5).nprobe_default == 5


@pytest.fixture(scope="module")
def source(tools):
    return tools.Source(tools.clustered(3000))


def worker_of(source, kind):
    return FaissWorker(LiveIndex.build(source, kind=kind), source)


def exact(source, queries, k):
    """Sorted squared distances to the k nearest vectors, [n, k]."""
    vectors = np.stack([vector for _, vector in source.rows.values()])
    return np.sort(((queries[:, None] - vectors) ** 2).sum(-1), axis=1)[:, :k]


def test_whole_vectors_are_searched_as_faiss_does_it(tools, source):
    live = LiveIndex.build(source)
    worker, queries = FaissWorker(live, source), tools.clustered(30, seed=4)
    for nprobe in (1, 7, live.nlist):
        found, expected = (
            worker.search_at_once(queries, 9, nprobe),
            one_shot(live.index, queries, 9, nprobe),
        )
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


def test_panorama_over_all_lists_is_exact(tools, source):
    worker, queries = worker_of(source, IndexKind.PANORAMA), tools.clustered(30, seed=4)
    assert worker.nprobe_default == len(worker.list_sizes)
    distances, _ = worker.search_at_once(queries, 9, worker.nprobe_default)
    np.testing.assert_allclose(distances, exact(source, queries, 9), rtol=1e-4, atol=1e-5)


def test_codes_are_refined_to_the_distances_of_half_precision(tools, source):
    worker, near = worker_of(source, IndexKind.PQ), tools.clustered(60, seed=4)
    queries = tools.clustered(3000)[:60] + 0.1 * near
    distances, labels = worker.search_at_once(queries, 5, len(worker.list_sizes))
    for query, row, found in zip(queries, labels, distances, strict=True):
        vectors = np.stack([source.rows[i][1] for i in row]).astype(np.float16)
        expected = ((query - vectors.astype(np.float32)) ** 2).sum(-1)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    is_right = np.isclose(distances, exact(source, queries, 5), rtol=1e-2, atol=1e-3)
    assert is_right.mean() > 0.9


def test_many_equal_vectors_are_all_found(tools):
    copies = np.repeat(tools.clustered(8)[:1], 600, axis=0)
    others = tools.clustered(1000, seed=5)
    source = tools.Source(np.concatenate([copies, others]))
    worker = worker_of(source, IndexKind.PQ)
    distances, labels = worker.search_at_once(copies[:1], 20, len(worker.list_sizes))
    assert (labels > 0).all()
    np.testing.assert_allclose(distances, 0, atol=1e-5)


def test_residual_codes_are_refused(tools, source):
    live = LiveIndex.build(source, kind=IndexKind.PQ)
    live.index.by_residual = True
    with pytest.raises(ConfigError, match="by_residual"):
        FaissWorker(live, source)


def test_the_self_test_notices_codes_whose_heaps_are_carried(tools, source, monkeypatch):
    live = LiveIndex.build(source, kind=IndexKind.PQ)
    monkeypatch.setitem(worker_module.CAPABILITIES, "IndexIVFPQFastScan", Stepping.CARRY)
    with pytest.raises(ConfigError, match="other results"):
        FaissWorker(live, source)
