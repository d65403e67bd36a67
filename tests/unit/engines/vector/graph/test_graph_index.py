"""The build: fixed degree, no loops, reachable, and good enough to find what is near."""

import numpy as np
import pytest

from heddle.core.errors import InputError
from heddle.engines.vector.files.index_kind import GRAPH_DEGREE
from heddle.engines.vector.graph import knn
from heddle.engines.vector.graph.equal_rows import first_equals
from heddle.engines.vector.graph.graph_index import build_graph
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker


def exact(vectors, queries, k):
    distances = ((queries[:, None] - vectors[None]) ** 2).sum(2)
    return np.argsort(distances, axis=1, kind="stable")[:, :k], np.sort(distances, axis=1)[:, :k]


def test_edges_lead_to_other_rows_and_each_once(graph):
    neighbours = graph.index.neighbours
    assert neighbours.shape == (len(graph.vectors), GRAPH_DEGREE)
    for row, nodes in enumerate(neighbours):
        used = nodes[nodes >= 0]
        assert len(np.unique(used)) == len(used) > 0
        assert row not in used
        assert (nodes[len(used) :] == -1).all()


def test_a_search_finds_what_is_nearest(graph):
    queries = graph.queries(100)
    _, nearest = exact(graph.vectors, queries, 10)
    found = [graph.alone(query, 10, 64)[0] for query in queries]
    # By distance, as duplicates are equally right; float16 rounds the third digit.
    assert np.mean(np.array(found) <= nearest[:, -1:] * 1.01) > 0.99


def test_distances_are_squared_l2_and_ascend(graph):
    query = graph.queries(1)[0]
    distances, labels = graph.alone(query, 10, 64)
    rows = [int(np.flatnonzero(graph.labels == label)[0]) for label in labels]
    np.testing.assert_allclose(distances, ((graph.vectors[rows] - query) ** 2).sum(1), rtol=5e-3)
    assert (np.diff(distances) >= 0).all()
    assert len(set(labels.tolist())) == 10


@pytest.mark.parametrize("cells_max", [1 << 22, 3 * 140])
def test_neighbours_are_exact_when_every_cluster_is_looked_at(tools, monkeypatch, cells_max):
    monkeypatch.setattr(knn, "CELLS_MAX", cells_max)
    vectors = tools.clustered(300)[:140]  # without duplicates
    centroids = vectors[:5]
    lists = exact(centroids, vectors, 1)[0][:, 0]
    parts = list(knn.near_neighbours(vectors, centroids, lists, 8, 5))
    assert max(len(part.of) for part in parts) * len(vectors) <= cells_max
    expected, distances = exact(vectors, vectors, 9)
    of = np.concatenate([part.of for part in parts])
    assert sorted(of.tolist()) == list(range(140))
    rows = np.concatenate([part.rows for part in parts])
    assert (rows == expected[of, 1:]).mean() > 0.99  # ties may swap
    found = np.concatenate([part.distances for part in parts])
    np.testing.assert_allclose(found, distances[of, 1:], atol=1e-5)


def test_a_vector_without_a_cluster_is_left_out(tools):
    vectors = tools.clustered(60)
    lists = np.where(np.arange(60) % 3 == 0, knn.NO_CLUSTER, np.arange(60) % 2)
    parts = list(knn.near_neighbours(vectors, vectors[:2], lists, 59, 2))
    of = np.concatenate([part.of for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    assert sorted(of.tolist()) == [row for row in range(60) if row % 3]
    assert set(rows[rows >= 0].tolist()) == set(of.tolist())


def test_a_cluster_is_compared_with_no_more_vectors_than_memory_allows(tools, monkeypatch):
    monkeypatch.setattr(knn, "OTHERS_MAX", 60)
    vectors = tools.clustered(300)
    centroids = vectors[:10]
    lists = exact(centroids, vectors, 1)[0][:, 0]
    sizes = np.bincount(lists, minlength=10)
    for part in knn.near_neighbours(vectors, centroids, lists, 299, 10):
        compared = int((part.rows[0] >= 0).sum()) + 1  # it itself
        assert sizes[lists[part.of[0]]] <= compared <= max(60, sizes[lists[part.of[0]]])


def test_progress_ends_at_the_last_row(tools):
    heard = []
    vectors = tools.clustered(200)
    build_graph(vectors, np.arange(200), on_phase=lambda *state: heard.append(state))
    assert [name for name, done, count in heard if done == count] == [
        "clusters",
        "neighbours",
        "edges",
    ]


def with_equals(count, groups, equals, dims=32):
    """Unit vectors of which each group of `equals` is one, in any order."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((40, dims))
    vectors = centres[rng.integers(0, 40, count)] + 0.8 * rng.standard_normal((count, dims))
    for first in range(0, groups * equals, equals):
        vectors[first : first + equals] = vectors[first]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return rng.permutation(vectors).astype(np.float32)


def test_many_equal_vectors_keep_no_search_from_what_is_nearer():
    vectors = with_equals(4000, groups=10, equals=100)
    worker, slot = (
        NumbaWorker(LiveGraph(build_graph(vectors, np.arange(4000))), 1),
        np.zeros(1, int),
    )
    rng = np.random.default_rng(0)
    queries = vectors[:200] + 0.1 * rng.standard_normal((200, 32), dtype=np.float32)
    _, nearest = exact(vectors, queries, 10)
    recalls = []
    for query, distances in zip(queries, nearest, strict=True):
        worker.start([0], query[None], 64)
        worker.advance(slot, 1 << 40, 0)
        found, labels = worker.top(slot, 10)
        assert len(np.unique(labels)) == 10
        recalls.append((found[0] <= distances[-1] * 1.01).mean())
    assert min(recalls) >= 0.8


def test_equal_vectors_share_edges_and_lead_to_one_another():
    vectors = with_equals(600, groups=2, equals=50)
    firsts = first_equals(vectors)
    assert np.array_equal(vectors[firsts], vectors)
    groups = [np.flatnonzero(firsts == first) for first in np.unique(firsts)]
    neighbours = build_graph(vectors, np.arange(600)).neighbours
    for rows in sorted(groups, key=len)[-2:]:
        assert len(rows) == 50
        others = [set(neighbours[row].tolist()) - set(rows.tolist()) - {-1} for row in rows]
        assert all(edges == others[0] for edges in others)
        assert others[0]
        for row, following in zip(rows, np.roll(rows, -1), strict=True):
            assert set(neighbours[row].tolist()) & set(rows.tolist()) == {following}


@pytest.mark.parametrize("count", [1, 2, 40])
def test_a_tiny_corpus_is_found_whole(tools, count):
    vectors = tools.clustered(200)[:count]
    index = build_graph(vectors, np.arange(count))
    worker, slot = NumbaWorker(LiveGraph(index), 1), np.zeros(1, np.int64)
    worker.start([0], vectors[:1], 64)
    worker.advance(slot, 1 << 40, 0)
    distances, labels = worker.top(slot, 64)
    assert set(labels[0, :count].tolist()) == set(range(count))
    assert (labels[0, count:] == -1).all()
    assert np.isinf(distances[0, count:]).all()


@pytest.mark.parametrize(
    ("vectors", "labels", "message"),
    [
        (np.zeros((0, 4), np.float32), np.zeros(0, np.int64), "at least one"),
        (np.ones((2, 4), np.float32), np.array([5, 5]), "different"),
        (np.ones((2, 4), np.float32), np.array([5]), "different"),
        (np.full((2, 4), np.nan, np.float32), np.array([5, 6]), "NaN"),
    ],
)
def test_what_can_not_be_built_is_refused(vectors, labels, message):
    with pytest.raises(InputError, match=message):
        build_graph(vectors, labels)
