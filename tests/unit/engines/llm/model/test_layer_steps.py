"""What the compiled kernel computes between a layer's products is torch's."""

import math

import pytest
import torch
import torch.nn.functional as F

from heddle.engines.llm.model.layer_steps import (
    TOKENS_ALONE_MAX,
    gate_states,
    norm_heads,
    norm_states,
)
from tests.helpers.row_kernels import row_kernel

TOLERANCES = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.bfloat16: {"rtol": 8e-3, "atol": 8e-3},
}
EPSILON = 1e-5


@pytest.fixture(params=TOLERANCES, ids=str)
def kernel(request):
    """Return a number type and its kernel."""
    return request.param, row_kernel(request.param)


@pytest.mark.parametrize("tokens", [1, 17, TOKENS_ALONE_MAX + 33])
@pytest.mark.parametrize("size", [7, 16, 90, 576])
@pytest.mark.parametrize("adds", [False, True])
def test_states_are_added_to_and_normed(kernel, tokens, size, adds):
    dtype, found = kernel
    torch.manual_seed(0)
    states, more = (torch.randn(1, tokens, size).to(dtype) for _ in range(2))
    weight = torch.rand(size) + 0.5
    summed = states + more if adds else states.clone()
    expected = F.rms_norm(summed.float(), (size,), weight, EPSILON).to(dtype)
    root = math.sqrt(size)
    least = math.sqrt(EPSILON) * root
    got = norm_states(found, states, more if adds else None, weight * root, least)
    torch.testing.assert_close(got, expected, **TOLERANCES[dtype])
    assert torch.equal(states, summed)


@pytest.mark.parametrize("tokens", [1, 17, TOKENS_ALONE_MAX + 33])
@pytest.mark.parametrize("size", [7, 16, 90, 128])
def test_heads_are_normed_where_they_lie(kernel, tokens, size):
    dtype, found = kernel
    torch.manual_seed(0)
    every = torch.randn(tokens, 5, size).to(dtype)
    weight, root = torch.rand(size) + 0.5, math.sqrt(size)
    expected = every.clone()
    expected[:, 1:4] = F.rms_norm(every[:, 1:4].float(), (size,), weight, EPSILON).to(dtype)
    norm_heads(found, every[:, 1:4], weight * root, math.sqrt(EPSILON) * root)
    torch.testing.assert_close(every, expected, **TOLERANCES[dtype])


@pytest.mark.parametrize("tokens", [1, 17, TOKENS_ALONE_MAX + 33])
@pytest.mark.parametrize("size", [7, 16, 90, 1536])
def test_gates_are_silu(kernel, tokens, size):
    dtype, found = kernel
    torch.manual_seed(0)
    joined = (20 * torch.randn(1, tokens, 2 * size)).to(dtype)
    gate, up = joined.float().chunk(2, dim=-1)
    expected = (F.silu(gate) * up).to(dtype)
    torch.testing.assert_close(gate_states(found, joined), expected, **TOLERANCES[dtype])


def test_what_is_no_number_stays_none(kernel):
    dtype, found = kernel
    states = torch.ones(1, 3, 40, dtype=dtype)
    states[0, 1, 5] = torch.nan
    normed = norm_states(found, states, None, torch.ones(40), 1e-3)
    assert normed[0, 1].isnan().all()
    assert normed[0, [0, 2]].isfinite().all()
    gated = gate_states(found, states)
    assert gated[0, 1, 5].isnan()
    assert gated[0, 1, 6:].isfinite().all()
