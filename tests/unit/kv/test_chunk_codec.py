"""Stored KV comes back as computed, and its rounding error is measured."""

import math

import pytest
import torch

from heddle.core.errors import InputError, InternalError
from heddle.kv.chunk_codec import decode, encode
from heddle.kv.chunk_entry import ChunkEntry, StoredChunk
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.kv_encoding import KvEncoding
from heddle.kv.page_store import KvBlock


def block(tokens=5, dtype=torch.float32, seed=0):
    rng = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, 2, 3, tokens, 4, generator=rng)
    return KvBlock(keys.to(dtype), values.to(dtype))


def loss(stored, exact):
    return float(torch.linalg.vector_norm(stored - exact) / torch.linalg.vector_norm(exact))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_as_computed_is_bit_equal_and_a_copy(dtype):
    exact = block(dtype=dtype)
    encoded = encode(exact, KvEncoding.AS_COMPUTED)
    assert encoded.error == 0.0
    kept = exact.keys.clone()
    exact.keys.zero_()
    assert torch.equal(decode(encoded).keys, kept)
    assert torch.equal(decode(encoded).values, exact.values)


def test_bf16_halves_the_bytes_and_says_what_that_costs():
    exact = block()
    encoded = encode(exact, KvEncoding.BF16)
    stored = decode(encoded)
    assert encoded.nbytes * 2 == exact.keys.nbytes + exact.values.nbytes
    assert stored.keys.data_ptr() == encoded.tensors["keys"].data_ptr(), "decoding has copied"
    assert 1e-4 < encoded.error < 4e-3
    measured = max(loss(stored.keys, exact.keys), loss(stored.values, exact.values))
    assert encoded.error == pytest.approx(measured, rel=1e-6)
    assert encode(block(dtype=torch.bfloat16), KvEncoding.BF16).error == 0.0


def test_int8_scales_each_channel_by_itself():
    exact = block(tokens=64)
    exact.keys[..., 2] *= 1000.0  # one loud channel must not drown the others
    encoded = encode(exact, KvEncoding.INT8)
    stored = decode(encoded)
    for channel in range(4):
        assert loss(stored.keys[..., channel], exact.keys[..., channel]) < 0.01
    measured = max(loss(stored.keys, exact.keys), loss(stored.values, exact.values))
    assert encoded.error == pytest.approx(measured, rel=1e-6)
    assert encoded.tensors["keys"].dtype is torch.int8
    step = encoded.tensors["key_scales"]
    assert step.shape == (2, 3, 1, 4)
    assert bool(((stored.keys - exact.keys).abs() <= step * 0.501).all())


def test_channels_of_zeros_stay_zeros():
    exact = block()
    exact.keys[..., 1] = 0.0
    exact.values.zero_()
    encoded = encode(exact, KvEncoding.INT8)
    assert torch.equal(decode(encoded).keys[..., 1], exact.keys[..., 1])
    assert torch.equal(decode(encoded).values, exact.values)
    assert math.isfinite(encoded.error)


@pytest.mark.parametrize("encoding", list(KvEncoding))
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["keys", "values"])
def test_what_is_not_finite_is_refused(encoding, bad, where):
    exact = block()
    getattr(exact, where)[0, 0, 0, 0] = bad
    with pytest.raises(InputError, match="NaN or infinity"):
        encode(exact, encoding)


def test_a_view_of_a_pool_does_not_keep_the_pool():
    pool = torch.randn(2, 3, 100, 4)
    view = pool.narrow(2, 10, 5)
    encoded = encode(KvBlock(view, view), KvEncoding.AS_COMPUTED)
    kept = encoded.tensors["keys"]
    assert kept.untyped_storage().nbytes() == kept.nbytes == view.nbytes


def test_an_entry_has_as_many_tokens_as_its_record_says():
    with pytest.raises(InternalError):
        ChunkEntry(ChunkRecord(b"k", b"c", 4, 0), block(tokens=5))
    with pytest.raises(InternalError):
        ChunkEntry(ChunkRecord(b"k", b"c", 0, 0), block(tokens=0))


def test_an_entry_remembers_what_storing_it_has_lost():
    entry = ChunkEntry(ChunkRecord(b"k", b"c", 5, 7), block())
    stored = StoredChunk.of(entry, KvEncoding.INT8)
    assert stored.entry().error == stored.kv.error > 0.0
    assert stored.entry().record == entry.record
