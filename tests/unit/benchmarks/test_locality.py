"""locality: its searches are the engine's, and what a request knew is looked at first."""

import numpy as np
import pytest

from benchmarks.locality import ORDERS, K, Searcher, _headline, _measured
from benchmarks.support.fixed_source import FixedSource
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.live_index import LiveIndex

COUNT, DIMS, PAIRS = 1500, 16, 20


@pytest.fixture(scope="module")
def scans():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((COUNT, DIMS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    source = FixedSource(vectors)
    corpus = FollowedIvf(LiveIndex.build(source, kind=IndexKind.FLAT), source)
    asked = vectors[:PAIRS] + 0.3 * rng.standard_normal((PAIRS, DIMS)).astype(np.float32)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    same = np.stack([asked, asked], axis=1)  # each question twice
    return {order: Searcher(corpus, order).scans(same) for order in ORDERS}


def test_who_asks_again_knows_all_before_the_first_list(scans):
    assert (scans["none"].hits.sum(axis=1) == K).all()
    assert (scans["none"].recall[:, 0] < 1).any()
    for order in ("hard", "soft"):
        assert (scans[order].recall == 1).all()
        assert scans[order].hits.sum() == 0


def test_looks_are_a_servers(scans):
    for found in scans.values():
        assert found.looks[:5].tolist() == [4, 5, 6, 7, 8]
        assert found.recall.shape == found.kth.shape == (PAIRS, len(found.looks))


def test_the_headline_is_that_of_the_worst_sequence(scans):
    rows = [
        {"sequence": sequence, "order": order, **_measured(scans[order], 0)}
        for sequence in ("chains", "unrelated")
        for order in ORDERS
    ]
    [none, _, soft] = rows[:3]
    assert soft["needed"] == scans["soft"].looks[0]
    assert none["full_recall"] == 1
    assert none["needed"] > soft["needed"]
    worse = [{**row, "sequence": "topics", "clusters": 30.0, "recall": 0.9} for row in rows[:3]]
    headline = _headline([*rows, *worse])
    assert headline == {"clusters_ratio": 1.0, "recall_shortfall": 0.05}
