"""Operations in one call are computed in their order, by any number of threads, again and again."""

import pytest
import torch

from heddle.engines.llm.model.layer_steps import gate_states, gates_of, norm_states, norms_of
from heddle.kernels.operations import Operation, Operations
from tests.helpers.row_kernels import row_kernel

TOKENS, SIZE = 90, 96


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_sees_what_the_one_before_wrote(threads):
    kernel = row_kernel(torch.float32)
    torch.manual_seed(0)
    joined, weight = torch.empty(TOKENS, 2 * SIZE), torch.rand(SIZE)
    gated, normed = torch.empty(TOKENS, SIZE), torch.empty(TOKENS, SIZE)
    operations = Operations(
        kernel.together,
        [
            Operation(kernel.gate_tokens, gates_of(joined, gated)),
            Operation(kernel.norm_tokens, norms_of(gated[:, None], None, weight, 0.1, normed)),
            Operation(kernel.norm_tokens, norms_of(normed[:, None], gated, weight, 0.1, gated)),
        ],
    )
    for _ in range(20):
        joined.copy_(torch.randn(joined.shape))
        first = gate_states(kernel, joined)
        second = norm_states(kernel, first, None, weight, 0.1)
        third = norm_states(kernel, second, first, weight, 0.1)
        operations.run(threads)
        assert torch.equal(normed, second), "states were added to where they lie"
        assert torch.equal(gated, third)
