"""An index is served only if a search in steps finds the same as one at once."""

import dataclasses

import faiss
import numpy as np
import pytest

from heddle.core.errors import ConfigError
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf import ivf_kind, stepping_check
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_kind import IVF_KINDS, Stepping
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.scanner import IvfScanner
from heddle.engines.vector.ivf.stepping_check import check_steppable, checked_scanner, one_shot


def ivf(tools, kind="IVF4,Flat", metric=faiss.METRIC_L2):
    index = faiss.index_factory(tools.dims, kind, metric)
    index.cp.min_points_per_centroid = 1
    vectors = tools.clustered(400)
    index.train(vectors)
    index.add(vectors)
    return index


@pytest.mark.parametrize("kind", ["IVF4,PQ4x4", "IVF4,SQ8"])
def test_other_kinds_of_index_are_refused(tools, kind):
    with pytest.raises(ConfigError, match="build one of IndexIVFFlat"):
        check_steppable(ivf(tools, kind))


@pytest.mark.parametrize("mode", [1, 2, 1 | 1024, 2 | 1024])
def test_parallel_modes_that_fail_silently_are_refused(tools, mode):
    index = ivf(tools)
    index.parallel_mode = mode
    with pytest.raises(ConfigError, match="parallel_mode"):
        checked_scanner(LiveIndex(index, 0))


def test_inner_product_is_refused(tools):
    with pytest.raises(ConfigError, match="metric"):
        check_steppable(ivf(tools, metric=faiss.METRIC_INNER_PRODUCT))


def test_the_self_test_notices_a_faiss_that_forgets_the_heaps(tools, monkeypatch):
    index = ivf(tools)
    scan = IvfScanner.scan

    def forgetful(self, queries, lists, distances, labels, allowed=None):
        distances[:], labels[:] = np.inf, -1
        scan(self, queries, lists, distances, labels)

    monkeypatch.setattr(IvfScanner, "scan", forgetful)
    with pytest.raises(ConfigError, match="other results"):
        checked_scanner(LiveIndex(index, 0))


@pytest.fixture(scope="module")
def source(tools):
    return tools.Source(tools.clustered(3000))


def test_residual_codes_are_refused(tools, source):
    live = LiveIndex.build(source, kind=IndexKind.PQ)
    live.index.by_residual = True
    with pytest.raises(ConfigError, match="by_residual"):
        checked_scanner(live)


def test_the_self_test_notices_codes_whose_heaps_are_carried(tools, source, monkeypatch):
    live = LiveIndex.build(source, kind=IndexKind.PQ)
    name = "IndexIVFPQFastScan"
    carried = dataclasses.replace(IVF_KINDS[name], stepping=Stepping.CARRY)
    monkeypatch.setattr(ivf_kind, "IVF_KINDS", {**IVF_KINDS, name: carried})
    with pytest.raises(ConfigError, match="other results"):
        checked_scanner(live)


def test_the_self_test_finds_the_order_of_faiss(tools, faiss_order):
    source = tools.Source(tools.clustered(3000, dims=384))
    live = LiveIndex.build(source)
    scanner, queries = checked_scanner(live), tools.clustered(8, seed=3, dims=384)
    assert scanner.shares_lists
    np.testing.assert_array_equal(
        scanner.search_at_once(queries, 9, 7)[0], one_shot(live.index, queries, 9, 7)[0]
    )


def test_an_unknown_order_of_sums_is_ordinary(tools, source, monkeypatch, caplog):
    monkeypatch.setattr(stepping_check, "SUM_ORDERS", ())
    live = LiveIndex.build(source)
    with caplog.at_level("INFO", logger=stepping_check.log.name):
        corpus = FollowedIvf(live, source)
    assert not corpus.scanner.shares_lists
    assert "queries share no scans" in caplog.text
    assert not [record for record in caplog.records if record.levelname != "INFO"]
    engine = ivf_engine("vector", 0, corpus, tools.Clock())
    engine.apply(tools.search(1, tools.clustered(2)))
    assert tools.terminals(tools.drain(engine))[1].result.notes == ()
    assert corpus.notes == ()
    queries = tools.clustered(8, seed=3)
    found = corpus.scanner.search_at_once(queries, 9, 7)
    np.testing.assert_array_equal(found[0], one_shot(live.index, queries, 9, 7)[0])
