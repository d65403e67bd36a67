import numpy as np
import pytest

from heddle.kv.chunk_attention import ChunkAttention
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.disk.chunk_header import metadata_of, record_of


def attention(context, tokens, seed=0):
    """Return random attention of a chunk behind `context` others."""
    draw = np.random.default_rng(seed)
    return ChunkAttention(
        impact=0.75,
        inter=draw.random(context, dtype=np.float32),
        weights=draw.random(tokens, dtype=np.float32),
        last_weights=draw.random(tokens, dtype=np.float32),
    )


@pytest.mark.parametrize(("context", "tokens"), [(0, 1), (3, 7)])
def test_a_header_gives_back_what_it_was_given(context, tokens):
    known = attention(context, tokens)
    digests = tuple(bytes([i]) * 32 for i in range(context))
    record = ChunkRecord(b"k" * 32, b"c" * 32, tokens, 5, context=digests, attention=known)
    read = record_of(metadata_of(record)).attention
    assert read.impact == known.impact
    for name in ("inter", "weights", "last_weights"):
        assert np.array_equal(getattr(read, name), getattr(known, name))


def test_a_record_without_attention_stays_without():
    record = ChunkRecord(b"k" * 32, b"c" * 32, 3, 5)
    assert record_of(metadata_of(record)).attention is None


def test_numbers_of_another_chunk_are_refused():
    text = attention(2, 5).pack()
    with pytest.raises(ValueError, match="attention of 13 numbers"):
        ChunkAttention.unpack(text, 2, 6)
    with pytest.raises(ValueError, match=r"[Ii]ncorrect padding|Only base64"):
        ChunkAttention.unpack(text[:-1], 2, 5)
