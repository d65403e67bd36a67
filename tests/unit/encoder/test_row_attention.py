"""Attention within rows: torch, the padded form and the kernel give the same."""

import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.encoder import row_attention
from heddle.encoder.row_attention import (
    CompiledAttention,
    attention_over,
    padded_attention,
    torch_attention,
)
from heddle.kernels.compiled_kernel import FoundKernel, find_row_kernel

pytestmark = pytest.mark.numerics
HEADS = 4
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
LENGTHS = st.lists(st.integers(1, 150), min_size=1, max_size=6)


def projected_of(lengths: list[int], dtype: torch.dtype, head_dim: int = 32) -> Tensor:
    generator = torch.Generator().manual_seed(len(lengths))
    made = torch.randn(sum(lengths), 3 * HEADS * head_dim, generator=generator)
    return made.to(dtype)


def compiled(lengths: list[int], dtype: torch.dtype, head_dim: int = 32) -> CompiledAttention:
    if dtype is torch.bfloat16 and not multiplies_bfloat16():
        pytest.skip("this CPU is slow in bfloat16")
    found = find_row_kernel(in_bfloat16=dtype is torch.bfloat16)
    if found.kernel is None:
        pytest.skip(f"no kernel here: {found.problem}")
    return CompiledAttention(found.kernel, lengths, HEADS, head_dim)


@settings(max_examples=25)
@given(LENGTHS)
def test_padded_rows_equal_rows_alone(lengths: list[int]) -> None:
    projected = projected_of(lengths, torch.float32, 8)
    alone = torch_attention(projected, lengths, HEADS)
    padded = padded_attention(projected, lengths, HEADS)
    torch.testing.assert_close(padded, alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("head_dim", [2, 32, 64])
@settings(max_examples=25)
@given(LENGTHS)
def test_the_kernel_is_as_near_to_exact_as_the_number_type(
    dtype: torch.dtype, head_dim: int, lengths: list[int]
) -> None:
    projected = projected_of(lengths, dtype, head_dim)
    found = compiled(lengths, dtype, head_dim)(projected)
    exact = torch_attention(projected.float(), lengths, HEADS)
    assert found.dtype is dtype
    torch.testing.assert_close(found.float(), exact, atol=TOLERANCES[dtype], rtol=1e-2)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_a_row_has_the_same_bits_in_any_batch(dtype: torch.dtype) -> None:
    lengths = [33, 1, 120, 64]
    projected = projected_of(lengths, dtype)
    together = compiled(lengths, dtype)(projected)
    for part, alone, length in zip(
        projected.split(lengths), together.split(lengths), lengths, strict=True
    ):
        assert torch.equal(compiled([length], dtype)(part.contiguous()), alone)


def test_torch_computes_what_the_kernel_is_not_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lengths = [3, 5]
    for projected in (
        projected_of(lengths, torch.float16),
        projected_of(lengths, torch.float32, 3),
    ):
        attend = attention_over(lengths, HEADS, projected, projected.shape[1] // 3)
        assert not isinstance(attend, CompiledAttention)
    monkeypatch.setattr(
        row_attention, "find_row_kernel", lambda in_bfloat16: FoundKernel(None, "no compiler")
    )
    projected = projected_of(lengths, torch.float32)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            found = attention_over(lengths, HEADS, projected, projected.shape[1] // 3)(projected)
    torch.testing.assert_close(found, torch_attention(projected, lengths, HEADS))
    assert [record.getMessage() for record in caplog.records] == [
        "encoders compute attention by torch, up to five times slower: no compiler"
    ]
