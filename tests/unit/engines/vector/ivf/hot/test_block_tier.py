import numpy as np
import pytest
import torch

from heddle.engines.vector.ivf.hot.block_tier import BlockTier
from heddle.engines.vector.ivf.hot.residency import BLOCK_ROWS, EMPTY

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DIMS, BLOCKS = 24, 12
SIZES = (64, 64, 5, 64, 1, 64, 64, 30, 64, 64, 64, 63)  # vectors in each block


@pytest.fixture(scope="module")
def filled():
    """Return a tier of ragged blocks, its vectors by label, and the labels of each block."""
    rng = np.random.default_rng(4)
    tier = BlockTier(BLOCKS, DIMS, torch.float32, DEVICE)
    vectors, labels_of = {}, {EMPTY: []}
    for first in range(1, BLOCKS + 1, 4):
        stage = wait_for_stage(tier)
        for place, block in enumerate(range(first, first + 4)):
            labels_of[block] = list(range(1000 * block, 1000 * block + SIZES[block - 1]))
            for row, label in enumerate(labels_of[block]):
                vectors[label] = rng.standard_normal(DIMS).astype(np.float32)
                stage.vectors[place, row] = torch.from_numpy(vectors[label])
                stage.labels[place, row] = label
        tier.copy_in(stage, np.arange(first, first + 4))
    wait_for_stage(tier)
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return tier, vectors, labels_of


def wait_for_stage(tier):
    stage = tier.free_stage()
    while stage is None:
        stage = tier.free_stage()
    return stage


def expected(queries, blocks, vectors, labels_of, k):
    """Return each query's k nearest as sorted (distance, label) lists."""
    nearest = []
    for query, row in zip(queries, blocks, strict=True):
        labels = [label for block in row for label in labels_of[block]]
        pairs = sorted((float(((vectors[i] - query) ** 2).sum()), i) for i in labels)
        nearest.append(pairs[:k])
    return nearest


def check(found, nearest):
    for distances, labels, pairs in zip(*found, nearest, strict=True):
        order = np.argsort(distances, kind="stable")
        count = len(pairs)
        assert labels[order][:count].tolist() == [label for _, label in pairs]
        np.testing.assert_allclose(distances[order][:count], [d for d, _ in pairs], rtol=1e-5)
        assert (labels[order][count:] == -1).all()
        assert np.isinf(distances[order][count:]).all()


@pytest.mark.parametrize("k", [1, 7, 200])
def test_each_query_gets_the_nearest_of_its_own_blocks(filled, k):
    tier, vectors, labels_of = filled
    rng = np.random.default_rng(k)
    queries = rng.standard_normal((3, DIMS)).astype(np.float32)
    blocks = np.array([[1, 3, 5, 8], [4, 2, EMPTY, EMPTY], [EMPTY] * 4])
    found = tier.scan(queries, blocks, k).wait()
    assert found[0].shape == (3, min(k, 4 * BLOCK_ROWS))
    check(found, expected(queries, blocks, vectors, labels_of, k))


def test_blocks_that_many_queries_share_give_nobody_what_it_did_not_ask_for(filled):
    tier, vectors, labels_of = filled
    rng = np.random.default_rng(5)
    queries = rng.standard_normal((20, DIMS)).astype(np.float32)
    blocks = np.tile(np.array([[2, 5, 7]]), (20, 1))
    blocks[3] = [5, EMPTY, EMPTY]
    blocks[11] = [12, 2, EMPTY]
    for k in (4, 120):
        found = tier.scan(queries, blocks, k).wait()
        check(found, expected(queries, blocks, vectors, labels_of, k))


def test_queries_that_are_compared_in_pieces_get_the_same(filled, monkeypatch):
    tier, _, _ = filled
    queries = np.random.default_rng(6).standard_normal((5, DIMS)).astype(np.float32)
    blocks = np.array([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]])
    whole = tier.scan(queries, blocks, 9).wait()
    monkeypatch.setattr("heddle.engines.vector.ivf.hot.block_tier.GATHERED_BYTES_MAX", 1)
    pieces = tier.scan(queries, blocks, 9).wait()
    np.testing.assert_allclose(np.sort(pieces[0]), np.sort(whole[0]), rtol=1e-5)
    np.testing.assert_array_equal(np.sort(pieces[1]), np.sort(whole[1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("dims", [24, 64, 100])
def test_the_kernel_computes_what_torch_does(dims, dtype):
    pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")
    rng = np.random.default_rng(dims)
    tier = BlockTier(4, dims, dtype, DEVICE)
    stage = tier.free_stage()
    stage.vectors.copy_(torch.from_numpy(rng.standard_normal(stage.vectors.shape)))
    stage.labels[:4] = torch.arange(4 * BLOCK_ROWS).view(4, -1)
    stage.labels[1, 9:] = -1
    tier.copy_in(stage, np.array([3, 1, 4, 2]))
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    queries = torch.from_numpy(rng.standard_normal((3, dims)).astype(np.float32)).to(DEVICE)
    blocks = torch.tensor([[1, 4, 2], [3, EMPTY, EMPTY], [EMPTY, EMPTY, EMPTY]], device=DEVICE)
    ours, reference = (
        distances(queries, blocks) for distances in (tier.kernel_distances, tier.gathered_distances)
    )
    torch.testing.assert_close(ours, reference, rtol=2e-5, atol=2e-5)
    assert torch.isinf(ours[2]).all()
    assert int(torch.isinf(ours[0]).sum()) == BLOCK_ROWS - 9
