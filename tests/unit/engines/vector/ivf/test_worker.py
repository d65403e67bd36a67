import faiss
import numpy as np
import pytest

from heddle.core.errors import ConfigError, StorageError
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf import worker as worker_module
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.worker import (
    FaissWorker,
    Stepping,
    are_settled,
    check_steppable,
    one_shot,
)

pytestmark = pytest.mark.numerics


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

    def forgetful(self, queries, lists, distances, labels, allowed=None):
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


def test_codes_settle_what_is_refined_unless_too_few_are_nearer_than_the_last():
    candidates = np.array([[1, 2, 3, 3], [1, 3, 3, 3], [1, 3, np.inf, np.inf]], np.float32)
    assert are_settled(candidates, 2).tolist() == [True, False, True]
    assert are_settled(candidates, 3).tolist() == [False, False, True]  # no more are there


def test_what_a_query_finds_by_its_codes_does_not_depend_on_its_neighbours(
    tools, source, monkeypatch
):
    monkeypatch.setattr(worker_module, "CACHED_BYTES", 0)  # so that many are scanned list by list
    worker, queries = worker_of(source, IndexKind.PQ), tools.clustered(40, seed=8)
    together = worker.search_at_once(queries, 5, 7)
    alone = [worker.search_at_once(queries[i : i + 1], 5, 7) for i in range(40)]
    for batch, each in zip(together, zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(batch, np.concatenate(each))


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


def test_the_self_test_finds_the_order_of_faiss(tools, faiss_order):
    source = tools.Source(tools.clustered(3000, dims=384))
    live = LiveIndex.build(source)
    worker, queries = FaissWorker(live, source), tools.clustered(8, seed=3, dims=384)
    assert worker.shares_lists
    np.testing.assert_array_equal(
        worker.search_at_once(queries, 9, 7)[0], one_shot(live.index, queries, 9, 7)[0]
    )


def test_an_unknown_order_of_sums_is_ordinary(tools, source, monkeypatch, caplog):
    monkeypatch.setattr(worker_module, "SUM_ORDERS", ())
    live = LiveIndex.build(source)
    with caplog.at_level("INFO", logger=worker_module.log.name):
        worker = FaissWorker(live, source)
    assert not worker.shares_lists
    assert "queries share no scans" in caplog.text
    assert not [record for record in caplog.records if record.levelname != "INFO"]
    engine = ivf_engine("vector", 0, worker, tools.Clock())
    engine.apply(tools.search(1, tools.clustered(2)))
    assert tools.terminals(tools.drain(engine))[1].result.notes == ()
    assert worker.notes == ()
    queries = tools.clustered(8, seed=3)
    found = worker.search_at_once(queries, 9, 7)
    np.testing.assert_array_equal(found[0], one_shot(live.index, queries, 9, 7)[0])


def test_what_fails_half_way_leaves_no_stale_address(tools, monkeypatch):
    source = tools.Source(tools.clustered(500))
    worker = FaissWorker(LiveIndex.build(source), source)
    queries = tools.clustered(6, seed=3)
    worker.search_at_once(queries, 5, worker.nprobe_default)  # now every list's address is known
    source.store_vectors(range(501, 2501), tools.clustered(2000, seed=5))
    insert = LiveIndex._insert

    def insert_and_fail(self, batch):
        insert(self, batch)
        raise MemoryError("no room")

    monkeypatch.setattr(LiveIndex, "_insert", insert_and_fail)
    with pytest.raises(MemoryError):
        worker.follow(in_flight=False)
    monkeypatch.undo()
    found = worker.search_at_once(queries, 5, worker.nprobe_default)
    expected = one_shot(worker._live.index, queries, 5, worker.nprobe_default)
    np.testing.assert_array_equal(found[0], expected[0])


def test_a_device_hears_of_a_change_that_failed_half_way(tools, monkeypatch):
    class Device:
        changes = 0

        def index_changed(self):
            self.changes += 1

    device, source = Device(), tools.Source(tools.clustered(500))
    worker = FaissWorker(LiveIndex.build(source), source, make_hot=lambda ivf: device)
    source.delete([1])

    def refuse(*arguments):
        yield from ()
        raise StorageError("the disk failed")

    monkeypatch.setattr(source, "vectors", refuse)  # by then the deletion is done
    with pytest.raises(StorageError):
        worker.follow(in_flight=False)
    assert device.changes == 1
    assert worker.list_sizes.sum() == 499
