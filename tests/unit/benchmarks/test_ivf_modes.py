"""ivf-modes: its recall, its way between two settings, and ours against a full scan."""

import numpy as np
import pytest

from benchmarks.contenders.vector_indexes import ours, peers
from benchmarks.support.first_threshold import begun_with
from benchmarks.support.search_methods import K, Method, qps_at
from benchmarks.support.search_set import SearchSet


@pytest.fixture(scope="module")
def data():
    draws = np.random.default_rng(3)
    vectors = draws.standard_normal((1500, 16), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return SearchSet(vectors, vectors[:40] + 0.01)


def test_a_speed_lies_between_the_two_settings_around_the_target():
    rows = [{"recall": 0.9, "qps": 400.0}, {"recall": 1.0, "qps": 100.0}]
    assert qps_at(0.95, rows) == pytest.approx(200.0)
    assert qps_at(0.9, rows) == pytest.approx(400.0)
    assert qps_at(0.89, rows) is None


def test_recall_counts_what_a_full_scan_finds(data):
    right = data.nearest(K)
    half = right.copy()
    half[:, 5:] = -1
    method = Method("m", lambda queries, setting: right, (1, 2))
    method.labels, method.seconds = {1: right, 2: half}, {1: [1.0], 2: [0.5, 2.0, 0.5]}
    whole, part = method.rows(right)
    assert (whole["recall"], whole["equal_sets"], whole["qps"]) == (1.0, 1.0, 40.0)
    assert (part["recall"], part["equal_sets"], part["qps"]) == (0.5, 0.0, 80.0)


def test_every_way_of_ours_finds_the_nearest_in_all_lists(data):
    ways = {method.name: method for method in ours(data)}
    for name in ("heddle exact", "heddle lists, exact"):
        found = ways[name].search(data.queries, ways[name].settings[-1])
        assert (np.sort(found) == np.sort(data.nearest(K))).all()
    found = ways["heddle default"].search(data.queries, 23)
    assert (found[:, 0] == data.nearest(1)[:, 0]).all()


@pytest.mark.parametrize("grid", [0.0, 0.5])
def test_a_first_threshold_changes_no_hit(grid):
    """On a coarse grid many vectors are equally far, and equal to each other."""
    draws = np.random.default_rng(7)
    vectors = draws.standard_normal((900, 16), dtype=np.float32)
    if grid:
        vectors = np.round(vectors[draws.integers(0, 300, 900)] / grid) * np.float32(grid)
    queries = vectors[:60] + draws.choice([0.0, 0.5], (60, 16)).astype(np.float32)
    before = np.concatenate([queries[:30], vectors[-30:]])  # some asked the same, some another
    begun = {m.name: m for m in begun_with(SearchSet(vectors, queries), before)}
    setting = begun["exact, unseeded"].settings[-1]
    expected = begun["exact, unseeded"].search(queries, setting)
    for name in ("exact, seeded", "exact, best seed"):
        assert (begun[name].search(queries, setting) == expected).all(), name
    shares = [method.share_compared(queries) for method in begun.values()]
    assert shares[0] > shares[2]
    assert shares[0] >= shares[1] >= shares[2]


def test_peers_give_ids_like_ours(data, tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    for _ in range(2):  # built, then read back
        for method in peers(data):
            found = method.search(data.queries, method.settings[-1])
            assert (found[:, 0] == data.nearest(1)[:, 0]).mean() > 0.9, method.name
