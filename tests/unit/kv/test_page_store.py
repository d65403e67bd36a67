"""What is written to slots is read back through runs and blocks, bit for bit."""

import pickle

import numpy as np
import pytest
import torch

from heddle.kv import page_store
from heddle.kv.page_store import KvBlock, KvShape, PageStore
from heddle.kv.rows import SlotRun


def store(dtype=torch.float32):
    return PageStore(KvShape(2, 3, 4, dtype), 32, torch.device("cpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_huge_pages", [False, True])
def test_a_pool_begins_with_zeros(monkeypatch, dtype, has_huge_pages):
    if not has_huge_pages:
        monkeypatch.setattr(page_store, "huge_memory", lambda size: None)
    pool = store(dtype)
    for part in (*pool.keys, *pool.values):
        assert part.shape == (3, 32, 4)
        assert part.dtype is dtype
        assert not part.any()


@pytest.mark.parametrize("by_runs", [False, True])
def test_runs_read_what_was_written(by_runs):
    pool, runs = store(), (SlotRun(4, 3), SlotRun(20, 2))
    keys, values = torch.randn(3, 5, 4), torch.randn(3, 5, 4)
    if by_runs:
        pool.write_runs(1, runs, keys, values)
    else:
        pool.write(1, torch.tensor([4, 5, 6, 20, 21]), keys, values)
    got_keys, got_values = pool.read(1, runs)
    assert torch.equal(got_keys, keys)
    assert torch.equal(got_values, values)


def test_one_run_is_a_view():
    pool = store()
    keys, _ = pool.read(0, (SlotRun(8, 4),))
    assert keys.untyped_storage().data_ptr() == pool.keys[0].untyped_storage().data_ptr()


def test_a_block_travels_to_another_pool():
    one, other = store(), store()
    slots = torch.tensor([3, 9, 11])
    for layer in range(2):
        one.write(layer, slots, torch.randn(3, 3, 4), torch.randn(3, 3, 4))
    block = one.gather(slots.numpy())
    assert block.tokens == 3
    other.load(np.array([30, 1, 2]), block)
    assert torch.equal(other.gather(np.array([30, 1, 2])).keys, block.keys)
    assert torch.equal(other.gather(np.array([30, 1, 2])).values, block.values)


def test_a_token_of_bfloat16_takes_half_the_bytes():
    assert KvShape(2, 3, 4, torch.float32).token_bytes == 2 * 2 * 3 * 4 * 4
    assert KvShape(2, 3, 4, torch.bfloat16).token_bytes == 2 * 2 * 3 * 4 * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_packed_block_travels_without_torch(dtype):
    pool = store(dtype)
    slots = torch.tensor([3, 9, 11])
    for layer in range(2):
        pool.write(layer, slots, *torch.randn(2, 3, 3, 4).to(dtype))
    block = pool.gather(slots.numpy())
    packed = pickle.loads(pickle.dumps(block.packed(), protocol=5))
    assert all(isinstance(part, np.ndarray) for part in packed)
    assert sum(part.nbytes for part in packed) == 3 * pool.shape.token_bytes
    back = KvBlock.unpacked(packed)
    assert torch.equal(back.keys, block.keys)
    assert torch.equal(back.values, block.values)
