"""What a fused row holds, layer by layer, and that the stored copies never change."""

import hashlib

import pytest
import torch

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from tests.helpers.fused_serving import EVERYTHING, segments
from tests.helpers.fusion_oracle import FusionOracle
from tests.helpers.stored_chunks import chunks_stored
from tests.helpers.three_chunks import (
    CHUNKS,
    PREFIX,
    QUESTION,
    TOLERANCE,
    ids_of,
    rel_diff,
    served,
    spans_of,
)
from tests.helpers.tiny_models import FAMILIES, tiny_model

TURNED = 2e-4  # keys that were turned in fp32 instead of computed at their place
A, B, C = CHUNKS
ASKED = segments(PREFIX, [C, A, B], QUESTION)
SPANS = spans_of([C, A, B])


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny_model(request.param)


def _turned(oracle, keys, start=0):
    """Turn the oracle's keys to neighbouring places. Shapes: [layers, kv_heads, n, head_dim]."""
    places = torch.arange(start, start + keys.shape[2])
    return torch.stack([oracle.rotated(layer[None], places)[0] for layer in keys])


def test_at_ratio_one_every_layer_holds_what_full_attention_computes(model):
    oracle = FusionOracle(model)
    _, exact, _ = oracle.run(ids_of([C, A, B]))
    keys = _turned(oracle, exact.keys)
    row = served(model).kv(ASKED, KvReuse(ReusePolicy.FUSIONRAG, 1.0))
    for layer in range(len(keys)):
        assert rel_diff(row.keys[layer], keys[layer]) < TOLERANCE
        assert rel_diff(row.values[layer], exact.values[layer]) < TOLERANCE


def test_the_first_layer_and_the_first_chunk_are_those_of_full_attention(model):
    """The first layer sees no context, and the first chunk none that it wasn't stored behind."""
    serving = served(model)
    row = serving.kv(ASKED)
    full = serving.kv(ASKED, KvReuse())
    assert rel_diff(row.values[0], full.values[0]) < TOLERANCE
    assert rel_diff(row.keys[0], full.keys[0]) < TURNED
    first = slice(0, SPANS[0].stop)
    assert rel_diff(row.keys[:, :, first], full.keys[:, :, first]) < TOLERANCE
    assert rel_diff(row.values[:, :, first], full.values[:, :, first]) < TOLERANCE
    rest = slice(SPANS[0].stop, SPANS[-1].stop)
    assert rel_diff(row.values[1:, :, rest], full.values[1:, :, rest]) > 1e-2, "a weak test"


@pytest.mark.parametrize("chunks", [(A, B, C), (C, A, B), (B, C, A)], ids=["abc", "cab", "bca"])
def test_full_reuse_in_another_order_moves_chunks_and_changes_nothing_else(model, chunks):
    """Without a prefix a chunk has seen itself alone, so its place turns its keys, no more."""
    oracle = FusionOracle(model)
    row = served(model, prefix=()).kv(segments((), chunks, QUESTION))
    for chunk, span in zip(chunks, spans_of(chunks, prefix=()), strict=True):
        _, alone, _ = oracle.run(chunk)
        assert rel_diff(row.values[:, :, span], alone.values) < TOLERANCE
        assert rel_diff(row.keys[:, :, span], _turned(oracle, alone.keys, span.start)) < TURNED


def test_eight_requests_at_once_leave_every_stored_byte_and_give_everything_back(model):
    with chunks_stored() as stored:
        serving = served(model, step_tokens=64)
    before, host_bytes = _checksums(stored), serving.store.stats().host_bytes
    reuses = [EVERYTHING, *(KvReuse(ReusePolicy.FUSIONRAG, ratio) for ratio in (0.15, 0.5, 1.0))]
    reuses.append(KvReuse(ReusePolicy.CACHEBLEND, 0.3))  # on copies, turned to their place
    orders = [[A, B, C], [C, B, A]]
    numbers = [
        serving.start(segments(PREFIX, order, QUESTION), reuse, 3)
        for order in orders
        for reuse in reuses
    ]
    serving.drain()
    assert all(len(serving.logits[number]) == 3 for number in numbers)
    assert _checksums(stored) == before
    assert serving.store.stats().host_bytes == host_bytes
    assert (serving.pinned_chunks, serving.held_pages) == (0, 0)


def _checksums(stored):
    """Return a digest of each stored entry's tensors."""
    return [
        hashlib.sha256(
            b"".join(tensor.numpy().tobytes() for tensor in one.kv.tensors.values())
        ).digest()
        for one in stored
    ]
