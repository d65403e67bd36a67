"""Weights and KV in bfloat16, KV stored in bfloat16 and int8: near the same in float32."""

import copy

import pytest
import torch

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.kv.chunk_codec import KvEncoding
from tests.helpers.fused_serving import EVERYTHING, segments
from tests.helpers.three_chunks import (
    CHUNKS,
    PREFIX,
    QUESTION,
    full_logits,
    ids_of,
    rel_diff,
    reused_logits,
    served,
)
from tests.helpers.tiny_models import FAMILIES, tiny_model

TOLERANCE = 4e-2
REORDERED = [CHUNKS[i] for i in (2, 0, 1)]
ASKED = segments(PREFIX, REORDERED, QUESTION)


@pytest.fixture(scope="module", params=FAMILIES)
def models(request):
    """A model in bfloat16, and the same weights in float32."""
    rounded = tiny_model(request.param).to(torch.bfloat16)
    return rounded, copy.deepcopy(rounded).to(torch.float32)


def test_full_attention_ratio_one_and_full_reuse_keep_to_bfloat16s_rounding(models):
    rounded, exact = models
    serving = served(rounded)
    full = full_logits(exact, ids_of(REORDERED))
    assert rel_diff(serving.ask(ASKED, KvReuse(ReusePolicy.FUSIONRAG, 1.0)), full) < TOLERANCE
    assert rel_diff(serving.ask(ASKED, EVERYTHING), reused_logits(exact, REORDERED)) < TOLERANCE
    assert rel_diff(serving.ask(ASKED, KvReuse()), full) < TOLERANCE


@pytest.mark.parametrize("encoding", [KvEncoding.BF16, KvEncoding.INT8])
def test_kv_stored_in_fewer_bits_changes_little(encoding):
    model = tiny_model("qwen3")
    got = served(model, encoding=encoding).ask(ASKED)
    assert 0 < rel_diff(got, reused_logits(model, REORDERED)) < TOLERANCE
