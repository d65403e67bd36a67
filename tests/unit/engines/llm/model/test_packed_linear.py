"""Packed layers compute what the plain ones do, and stand in for all of a model's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from heddle.engines.llm.model.packed_linear import (
    PACKED_ROWS_MAX,
    PackedLinear,
    can_pack,
    pack_linears,
)
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model

CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(
    not can_pack(CPU, torch.float32), reason="this torch has no oneDNN operators"
)


@pytest.mark.parametrize("count", [0, 1, 2, PACKED_ROWS_MAX, PACKED_ROWS_MAX + 1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch", [(), (1,)])
@torch.no_grad()
def test_the_product_is_that_of_the_plain_layer(count, bias, batch):
    torch.manual_seed(0)
    linear = nn.Linear(24, 40, bias=bias)
    rows = torch.randn(*batch, count, 24)
    expected = linear(rows)
    torch.testing.assert_close(PackedLinear(linear)(rows), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_packed_model_has_no_plain_layer_and_the_same_parameters(family):
    model, packed = tiny_model(family), tiny_model(family)
    pack_linears(packed)
    assert not [module for module in packed.modules() if type(module) is nn.Linear]
    for (name, one), (same_name, other) in zip(
        model.named_parameters(), packed.named_parameters(), strict=True
    ):
        assert name == same_name
        assert torch.equal(one, other)
    ids = torch.tensor([prompt(20, 0)])
    torch.testing.assert_close(packed(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_head_that_shares_its_weight_with_the_embedding_still_does():
    model = tiny_model("qwen2", tie_word_embeddings=True)
    ids = torch.tensor(prompt(20, 0))
    before = model.model.embed_tokens(ids)
    pack_linears(model)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert torch.equal(model.model.embed_tokens(ids), before)
    torch.testing.assert_close(model.lm_head(before), F.linear(before, model.lm_head.weight))


def test_only_float32_on_the_cpu_is_packed():
    assert not can_pack(CPU, torch.bfloat16)
    assert not can_pack(torch.device("cuda"), torch.float32)
