"""The build: fixed degree, no loops, reachable, and good enough to find what is near."""

import numpy as np
import pytest

from heddle.core.errors import InputError
from heddle.engines.vector.graph.graph_index import DEGREE, build_graph
from heddle.engines.vector.graph.knn import knn_graph
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker


def exact(vectors, queries, k):
    distances = ((queries[:, None] - vectors[None]) ** 2).sum(2)
    return np.argsort(distances, axis=1, kind="stable")[:, :k], np.sort(distances, axis=1)[:, :k]


def test_edges_lead_to_other_rows_and_each_once(graph):
    neighbours = graph.index.neighbours
    assert neighbours.shape == (len(graph.vectors), DEGREE)
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


def test_the_knn_graph_is_exact_when_every_cluster_is_looked_at(tools):
    vectors = tools.clustered(300)[:140]  # without duplicates
    centroids = vectors[:5]
    lists = exact(centroids, vectors, 1)[0][:, 0]
    heard = []
    found = knn_graph(vectors, centroids, lists, 8, 5, lambda done, count: heard.append(done))
    expected, distances = exact(vectors, vectors, 9)
    assert (found.rows == expected[:, 1:]).mean() > 0.99  # ties may swap
    np.testing.assert_allclose(found.distances, distances[:, 1:], atol=1e-5)
    assert heard == sorted(heard)
    assert heard[-1] == len(vectors)


def test_progress_ends_at_the_last_row(tools):
    heard = []
    vectors = tools.clustered(200)
    build_graph(vectors, np.arange(200), on_phase=lambda *state: heard.append(state))
    assert [name for name, done, count in heard if done == count] == [
        "clusters",
        "neighbours",
        "edges",
    ]


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
