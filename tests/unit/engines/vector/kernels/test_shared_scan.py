"""Our scan against FAISS: equal bit for bit, whichever queries share, in any order of lists."""

import faiss
import numpy as np
import pytest

from heddle.engines.vector.ivf.list_memory import ListMemory
from heddle.engines.vector.kernels.shared_scan import scan_shared
from heddle.engines.vector.kernels.sum_order import SumOrder

pytestmark = pytest.mark.numerics

EVERY_ID = np.zeros(0, np.uint8)


def index_of(vectors, nlist=7):
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(vectors.shape[1]), vectors.shape[1], nlist)
    index.cp.min_points_per_centroid = 1
    index.train(vectors)
    index.add_with_ids(vectors, np.arange(1, len(vectors) + 1))
    return index


def scanned(index, queries, lists, k, allowed=EVERY_ID, steps=1, order=SumOrder.AVX2):
    """Sorted hits of lists [n, w], a part of the columns in each step."""
    memory = ListMemory(index)
    memory.locate(lists)
    distances = np.full((len(queries), k), np.inf, np.float32)
    labels = np.full((len(queries), k), -1)
    for part in np.array_split(lists, steps, axis=1):
        scan_shared(
            memory.codes,
            memory.ids,
            memory.sizes,
            allowed,
            queries,
            part,
            distances,
            labels,
            int(order),
        )
        assert (distances[:, 0] == distances.max(axis=1)).all()  # still heaps
    order = np.lexsort((labels, distances), axis=1)
    return np.take_along_axis(distances, order, 1), np.take_along_axis(labels, order, 1)


@pytest.mark.parametrize("dims", [8, 16, 20, 384])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 9])
def test_hits_are_those_of_faiss(tools, faiss_order, dims, rows):
    vectors, queries = tools.clustered(900, dims=dims), tools.clustered(rows, 3, dims)
    index = index_of(vectors)
    index.nprobe = 4
    distances, labels = index.search(queries, 10)
    _, lists = index.quantizer.search(queries, 4)
    found = scanned(index, queries, lists, 10, order=faiss_order)
    np.testing.assert_array_equal(found[0], distances)
    np.testing.assert_array_equal(found[1], labels)


def test_neither_order_nor_steps_nor_company_change_a_hit(tools):
    vectors, queries = tools.clustered(900), tools.clustered(9, 3)
    index = index_of(vectors)
    lists = np.tile(np.arange(7), (9, 1))
    distances, labels = scanned(index, queries, lists, 40)
    rng = np.random.default_rng(0)
    for steps in (2, 7):
        found = scanned(index, queries, rng.permuted(lists, axis=1), 40, steps=steps)
        np.testing.assert_array_equal(found[0], distances)
        np.testing.assert_array_equal(found[1], labels)
    alone = scanned(index, queries[4:5], lists[4:5], 40)
    np.testing.assert_array_equal(alone[0][0], distances[4])
    np.testing.assert_array_equal(alone[1][0], labels[4])


def test_only_what_is_allowed_is_found(tools):
    vectors, queries = tools.clustered(900), tools.clustered(5, 3)
    index = index_of(vectors)
    flags = np.zeros(901, bool)
    flags[5:600:7] = True
    lists = np.tile(np.arange(7), (5, 1))
    allowed = np.packbits(flags, bitorder="little")
    _, labels = scanned(index, queries, lists, 20, allowed)
    expected = scanned(index, queries, lists, 900)[1]
    for row, wanted in zip(labels, expected, strict=True):
        assert row.tolist() == [i for i in wanted if flags[i]][:20]


def test_a_row_that_scans_nothing_keeps_its_heap(tools):
    vectors = tools.clustered(900)
    index = index_of(vectors)
    distances, labels = scanned(index, vectors[:2], np.array([[-1, -1], [0, -1]]), 5)
    assert np.isinf(distances[0]).all()
    assert (labels[0] == -1).all()
    assert (labels[1] >= 1).all()
