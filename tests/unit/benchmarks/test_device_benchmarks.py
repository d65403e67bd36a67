"""The GPU halves of benchmarks, with the host's memory in place of a GPU."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks import hot_clusters
from benchmarks.support.device_scan import gpu_named
from benchmarks.support.gpu_graph import gpu_rows, nearest_on, synthetic
from heddle.core.errors import ConfigError
from heddle.engines.vector.graph.gpu.reference import extend
from heddle.engines.vector.graph.graph_index import build_graph

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(hot_clusters, "GPU_BATCHES", (1, 3))
    monkeypatch.setattr("benchmarks.support.gpu_graph.COPIED_BYTES", 1 << 16)
    monkeypatch.setattr("benchmarks.support.gpu_graph.ROUNDS", 1)


def test_hot_clusters_on_a_device_are_compared_with_a_full_scan():
    rows = list(hot_clusters.device_rows(CPU, 1000, 16, 1e10, seed=0))
    assert [(row["method"], row["queries"]) for row in rows] == [
        ("hot", 1),
        ("full", 1),
        ("hot", 3),
        ("full", 3),
    ]
    assert all(row["qps"] > 0 for row in rows)


def test_a_device_that_finds_other_hits_than_a_full_scan_is_noticed(monkeypatch):
    from heddle.engines.vector.ivf.hot.block_tier import BlockTier

    scan = BlockTier.scan

    def wrong(self, queries, blocks, k):
        return scan(self, -queries, blocks, k)

    monkeypatch.setattr(BlockTier, "scan", wrong)
    with pytest.raises(Exception, match="agree on"):
        list(hot_clusters.device_rows(CPU, 1000, 16, 1e10, seed=0))


class FakeCagra:
    """cuvs.neighbors.cagra by its documentation, searching through everything."""

    class Params(dict):
        def __init__(self, **values):
            super().__init__(values)

    IndexParams = SearchParams = Params
    searched = ()

    @staticmethod
    def build(params, dataset):
        assert params == {
            "metric": "sqeuclidean",
            "graph_degree": 32,
            "intermediate_graph_degree": 64,
        }
        return dataset

    @classmethod
    def search(cls, params, index, queries, k):
        cls.searched = (*cls.searched, params["itopk_size"])
        assert queries.dtype == index.dtype
        distances, rows = torch.cdist(queries.float(), index.float()).topk(k, largest=False)
        return tuple(
            SimpleNamespace(copy_to_host=lambda a=a: a) for a in (distances.numpy(), rows.numpy())
        )


@pytest.mark.parametrize("has_cuvs", [False, True])
def test_graph_search_on_a_device_reports_recall_and_speed(has_cuvs, monkeypatch):
    modules = dict.fromkeys(("cuvs", "cuvs.neighbors", "cuvs.neighbors.cagra"))
    if has_cuvs:
        modules |= dict.fromkeys(modules, FakeCagra)
    monkeypatch.setattr(FakeCagra, "searched", ())
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((400, 12)).astype(np.float32)
    graph = build_graph(vectors, np.arange(400) + 1)
    queries = rng.standard_normal((9, 12)).astype(np.float32)
    distances = ((vectors[None] - queries[:, None]) ** 2).sum(axis=2)
    truth = distances.argsort(axis=1)[:, :5]
    shapes = ((32, 1), (64, 4))
    rows = gpu_rows(CPU, graph, queries, truth, extend, slots=4, shapes=shapes)
    searched, wide, full, *theirs = rows
    assert [row["topm"] for row in theirs] == ([32, 64, 128] if has_cuvs else [])
    assert all(row["recall"] > 0.99 for row in theirs)
    assert set(FakeCagra.searched) == ({32, 64, 128} if has_cuvs else set())
    assert (searched["topm"], wide["parents"]) == (32, 4)
    assert wide["recall"] > 0.9
    assert full["recall"] > 0.99
    assert searched["qps"] > 0


def test_synthetic_vectors_are_unit_length_and_their_nearest_are_the_nearest(monkeypatch):
    monkeypatch.setattr("benchmarks.support.gpu_graph.BLOCK_ROWS", 300)
    monkeypatch.setattr("benchmarks.support.gpu_graph.MEMBERS_PER_TOPIC", 100)
    drawn = synthetic(1000, 24, seed=3)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(drawn, synthetic(1000, 24, seed=3))
    vectors, queries = drawn[10:], drawn[:10]
    distances = ((vectors[None] - queries[:, None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(
        nearest_on(CPU, vectors, queries, 5), distances.argsort(axis=1)[:, :5]
    )


@pytest.mark.parametrize("device", ["tpu", "cuda"])
def test_a_device_that_is_not_there_is_refused(device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="--device"):
        gpu_named(device)
