import faiss
import numpy as np
import pytest

from heddle.core.errors import ConfigError
from heddle.engines.vector.live_index import LiveIndex
from heddle.engines.vector.worker import FaissWorker, check_steppable


def ivf(tools, kind="IVF4,Flat", metric=faiss.METRIC_L2):
    index = faiss.index_factory(tools.dims, kind, metric)
    index.cp.min_points_per_centroid = 1
    vectors = tools.clustered(400)
    index.train(vectors)
    index.add(vectors)
    return index


@pytest.mark.parametrize("kind", ["IVF4,PQ8x4fs", "IVF4,SQ8"])
def test_other_kinds_of_index_are_refused(tools, kind):
    with pytest.raises(ConfigError, match="IndexIVFFlat"):
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
