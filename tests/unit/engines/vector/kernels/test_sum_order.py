"""Our sums against FAISS's, bit for bit, at every instruction set that this processor has."""

import faiss
import numpy as np
import pytest

from heddle.engines.vector.kernels.sum_order import SumOrder, squared_l2

# Whole steps; with half a step left; with single dimensions left; less than a step.
DIMS = [384, 768, 24, 392, 20, 396, 31, 391, 8, 7, 1]


def fused(a, b, c):
    """a * b + c, rounded once: a product of float32 is exact in float64."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


def summed(vectors, query, order):
    """The same order in plain NumPy, [m]."""
    squares = vectors - query
    is_fused, is_rest_fused = order is SumOrder.AVX512, order is not SumOrder.SSE
    take = {
        True: lambda sums, new: fused(new, new, sums),
        False: lambda sums, new: sums + new * new,
    }
    done, half = len(query) // order * order, order // 2
    sums = np.zeros((len(vectors), order), np.float32)
    for start in range(0, done, order):
        sums = take[is_fused](sums, squares[:, start : start + order])
    sums = sums[:, :half] + sums[:, half:]
    if len(query) - done >= half:
        sums = take[is_rest_fused](sums, squares[:, done : done + half])
        done += half
    while sums.shape[1] > 1:
        middle = sums.shape[1] // 2
        sums = sums[:, :middle] + sums[:, middle:]
    total = sums[:, 0]
    for rest in range(done, len(query)):
        total = take[is_rest_fused](total, squares[:, rest])
    return total


def ours(vectors, queries, order):
    return np.array(
        [
            [squared_l2(vectors, i, queries, row, int(order)) for i in range(len(vectors))]
            for row in range(len(queries))
        ],
        np.float32,
    )


def drawn(dims):
    rng = np.random.default_rng(dims)
    vectors = rng.standard_normal((200, dims), np.float32)
    return vectors, rng.standard_normal((3, dims), np.float32)


@pytest.mark.parametrize("order", SumOrder)
@pytest.mark.parametrize("dims", DIMS)
def test_an_order_is_what_it_says(order, dims):
    vectors, queries = drawn(dims)
    expected = [summed(vectors, query, order) for query in queries]
    np.testing.assert_array_equal(ours(vectors, queries, order), expected)


@pytest.mark.parametrize("dims", DIMS)
def test_an_order_is_that_of_faiss(faiss_order, dims):
    vectors, queries = drawn(dims)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dims), dims, 1)
    index.train(vectors)
    index.add(vectors)
    distances, labels = index.search(queries, len(vectors))
    found = np.empty_like(distances)
    np.put_along_axis(found, labels, distances, axis=1)
    np.testing.assert_array_equal(ours(vectors, queries, faiss_order), found)


def test_the_orders_differ():
    vectors, queries = drawn(384)
    sums = [ours(vectors, queries, order) for order in SumOrder]
    assert not np.array_equal(sums[0], sums[1])
    assert not np.array_equal(sums[1], sums[2])
