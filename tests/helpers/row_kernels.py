"""The compiled kernel of a number type, for tests that can't do without it."""

import pytest
import torch

from heddle.kernels.compiled_kernel import RowKernel, find_row_kernel


def row_kernel(dtype: torch.dtype) -> RowKernel:
    """Return the kernel; skip the test where this machine has none."""
    kernel, problem = find_row_kernel(in_bfloat16=dtype is torch.bfloat16)
    if kernel is None:
        pytest.skip(f"no kernel here: {problem or 'the CPU is slow in bfloat16'}")
    return kernel
