"""Packed layers compute what the plain ones do, and stand in for all of a model's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.engines.llm.model import packed_linear
from heddle.engines.llm.model.packed_linear import (
    FEW_ROWS_MAX,
    PACKED_ROWS_MAX,
    BlockedLinear,
    PackedLinear,
    can_pack,
    pack_linears,
)
from heddle.kernels.compiled_kernel import FoundKernel, RowKernel, find_row_kernel
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


@pytest.mark.skipif(not multiplies_bfloat16(), reason="the CPU is slow in bfloat16")
@pytest.mark.parametrize("count", [0, 1, 2, 16, 17, FEW_ROWS_MAX, FEW_ROWS_MAX + 1, 300])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("inputs", "outputs"), [(24, 40), (64, 32), (96, 20), (576, 200)])
@torch.no_grad()
def test_blocked_weights_give_the_plain_layer_s_product(count, bias, inputs, outputs):
    torch.manual_seed(0)
    linear = nn.Linear(inputs, outputs, bias=bias, dtype=torch.bfloat16)
    rows = torch.randn(1, count, inputs).bfloat16()
    torch.testing.assert_close(BlockedLinear(linear)(rows), linear(rows), rtol=1e-2, atol=1e-2)


@pytest.mark.skipif(
    not find_row_kernel(in_bfloat16=True).kernel,
    reason=find_row_kernel(in_bfloat16=True).problem or "the CPU is slow in bfloat16",
)
@torch.no_grad()
def test_few_rows_are_multiplied_by_the_kernel_where_it_knows_the_layout(monkeypatch):
    asked = []
    monkeypatch.setattr(RowKernel, "multiply", lambda self, product, threads: asked.append(product))
    rows = torch.randn(1, 3, 64).bfloat16()
    BlockedLinear(nn.Linear(64, 100, dtype=torch.bfloat16))(rows)
    assert [product.count for product in asked] == [3]
    kernel = find_row_kernel(in_bfloat16=True).kernel._replace(panel=16)
    monkeypatch.setattr(packed_linear, "find_row_kernel", lambda **_: FoundKernel(kernel))
    BlockedLinear(nn.Linear(64, 100, dtype=torch.bfloat16))(rows)
    assert len(asked) == 1


def test_only_what_a_cpu_is_fast_in_is_packed():
    assert can_pack(CPU, torch.bfloat16) is multiplies_bfloat16()
    assert not can_pack(torch.device("cuda"), torch.float32)
