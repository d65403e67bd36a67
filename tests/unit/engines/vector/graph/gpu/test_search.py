"""The GPU's graph search: its kernel against torch, batches against single searches."""

import numpy as np
import pytest
import torch

from heddle.core.errors import ConfigError
from heddle.engines.vector.graph.gpu import reference
from heddle.engines.vector.graph.gpu.search import DeviceSearch, extend_by_kernel
from heddle.engines.vector.graph.graph_index import GraphIndex

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
COUNT, DIMS, DEGREE = 300, 10, 16
ADVANCES_MAX = 200


def small_graph(seed=0, degree=DEGREE):
    """Random edges between points of a coarse grid: many equal distances, all exact."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-3, 4, (COUNT, DIMS)).astype(np.float16)
    distances = ((vectors[:, None].astype(float) - vectors[None].astype(float)) ** 2).sum(axis=2)
    neighbours = distances.argsort(axis=1)[:, 1 : degree + 1].astype(np.int32)
    neighbours[:, degree // 2 :] = rng.integers(0, COUNT, neighbours[:, degree // 2 :].shape)
    neighbours[rng.random(neighbours.shape) < 0.1] = -1
    labels = np.arange(COUNT) * 7 + 3
    return GraphIndex(vectors, neighbours, labels, np.arange(0, COUNT, 40, dtype=np.int32))


def grid_queries(count, seed=1):
    return np.random.default_rng(seed).integers(-3, 4, (count, DIMS)).astype(np.float32)


def searched(search, slots, k):
    for _ in range(ADVANCES_MAX):
        if search.advance()[slots].all():
            return search.top(slots, k)
    raise AssertionError("the searches never end")


def device_search(graph, slots, topm=32, parents=1, extend=reference.extend):
    return DeviceSearch(graph, DEVICE, slots=slots, topm=topm, parents=parents, extend=extend)


@pytest.mark.parametrize("parents", [1, 2])
def test_the_kernel_does_what_torch_does_extend_by_extend(parents):
    pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")
    graph, queries = small_graph(), grid_queries(3)
    ours, torchs = (
        device_search(graph, 4, 16, parents, extend)
        for extend in (extend_by_kernel, reference.extend)
    )
    for search in (ours, torchs):
        search.start([0, 1, 3], queries)
    for _ in range(3):
        over = ours.advance(), torchs.advance()
        np.testing.assert_array_equal(over[0], over[1])
        for slot in (0, 1, 3):
            mine, theirs = ours.top([slot], 16), torchs.top([slot], 16)
            np.testing.assert_array_equal(mine[0], theirs[0])
            np.testing.assert_array_equal(mine[1], theirs[1])
        np.testing.assert_array_equal(ours.extends, torchs.extends)


@pytest.mark.parametrize("parents", [1, 4])
def test_a_search_finds_the_same_alone_as_beside_others(parents):
    graph, queries = small_graph(), grid_queries(6)
    together = device_search(graph, 6, parents=parents)
    together.start(list(range(6)), queries)
    found = searched(together, list(range(6)), 10)
    for slot, query in enumerate(queries):
        alone = device_search(graph, 1, parents=parents)
        alone.start([0], query[None])
        mine = searched(alone, [0], 10)
        np.testing.assert_array_equal(mine[0][0], found[0][slot])
        np.testing.assert_array_equal(mine[1][0], found[1][slot])


def test_a_slot_that_was_used_before_changes_nothing():
    graph, queries = small_graph(), grid_queries(4)
    search = device_search(graph, 2)
    search.start([0, 1], queries[:2])
    searched(search, [0, 1], 10)
    search.start([1], queries[3:])
    again = searched(search, [1], 10)
    fresh = device_search(graph, 1)
    fresh.start([0], queries[3:])
    np.testing.assert_array_equal(again[1], searched(fresh, [0], 10)[1])


def test_a_visited_table_that_forgets_nearly_everything_changes_no_result(monkeypatch):
    graph, queries = small_graph(), grid_queries(5)
    expected = device_search(graph, 5)
    expected.start(list(range(5)), queries)
    hits = searched(expected, list(range(5)), 20)
    monkeypatch.setattr("heddle.engines.vector.graph.gpu.search.PLACES", 2)
    forgetful = device_search(graph, 5)
    forgetful.start(list(range(5)), queries)
    found = searched(forgetful, list(range(5)), 20)
    np.testing.assert_array_equal(found[0], hits[0])
    np.testing.assert_array_equal(found[1], hits[1])


def test_no_hit_appears_twice_and_they_come_in_order():
    graph, queries = small_graph(), grid_queries(5)
    search = device_search(graph, 5, topm=64, parents=4)
    search.start(list(range(5)), queries)
    distances, labels = searched(search, list(range(5)), 64)
    for query, row, found in zip(queries, distances, labels, strict=True):
        found = found[np.isfinite(row)]
        assert len(set(found.tolist())) == len(found)
        assert (np.diff(row) >= 0).all()
        vectors = graph.vectors[(found - 3) // 7].astype(float)
        np.testing.assert_array_equal(((vectors - query) ** 2).sum(axis=1), row[: len(found)])


@pytest.mark.parametrize("topm", [16, 32, 128])
def test_torch_and_the_compiled_search_of_a_cpu_find_the_same(topm):
    """Two implementations, with other tables of visits and another merge: equal ids."""
    from heddle.engines.vector.graph.live_graph import LiveGraph
    from heddle.engines.vector.graph.worker import NumbaWorker

    graph, queries, slots = small_graph(), grid_queries(20), list(range(20))
    ours = NumbaWorker(LiveGraph(graph), 20)
    ours.start(slots, queries, topm)
    assert ours.advance(np.array(slots), 1 << 40, 0).over == slots
    torchs = device_search(graph, 20, topm)
    torchs.start(slots, queries)
    distances, labels = searched(torchs, slots, 16)
    found = ours.top(np.array(slots), 16)
    np.testing.assert_array_equal(found[1], labels)
    np.testing.assert_array_equal(found[0], distances)
    vectors = graph.vectors[(labels - 3) // 7].astype(float)
    np.testing.assert_array_equal(((vectors - queries[:, None]) ** 2).sum(axis=2), distances)


def test_a_wide_search_finds_the_nearest_of_all():
    graph, queries = small_graph(), grid_queries(8)
    search = device_search(graph, 8, topm=128)
    search.start(list(range(8)), queries)
    distances, _ = searched(search, list(range(8)), 5)
    everything = ((graph.vectors.astype(float)[None] - queries[:, None]) ** 2).sum(axis=2)
    expected = np.sort(everything, axis=1)[:, :5]
    assert (distances == expected).mean() > 0.95


def test_fewer_nodes_than_candidates_leave_places_empty():
    vectors = np.eye(3, dtype=np.float16)
    edges = np.array([[1, 2], [0, 2], [0, 1]], np.int32)
    graph = GraphIndex(vectors, edges, np.array([5, 6, 7]), np.array([0], np.int32))
    search = device_search(graph, 1, topm=8)
    search.start([0], np.zeros((1, 3), np.float32))
    distances, labels = searched(search, [0], 8)
    assert labels[0].tolist() == [5, 6, 7, -1, -1, -1, -1, -1]
    assert np.isinf(distances[0, 3:]).all()


@pytest.mark.parametrize("bad", [{"topm": 48}, {"parents": 3}, {"parents": 0}])
def test_sizes_that_no_kernel_takes_are_refused(bad):
    with pytest.raises(ConfigError, match="need a power of two"):
        device_search(small_graph(), 1, **bad)
