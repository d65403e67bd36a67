"""sparse-attention: all operators give the same numbers, also those that are for a GPU."""

import pytest
import torch

from benchmarks import sparse_attention
from benchmarks.sparse_attention import RATIOS, TILINGS
from heddle.core.errors import InputError
from heddle.kernels.compiled_kernel import FoundKernel, find_row_kernel


def rows_on(device):
    return sparse_attention.run(quick=True, seed=0, device=device)["rows"]


def operators(rows):
    return [row["operator"] for row in rows]


@pytest.mark.skipif(find_row_kernel().kernel is None, reason="the kernel can't be compiled here")
def test_every_operator_computes_the_same():
    rows = rows_on("cpu")
    assert operators(rows) == ["heddle", "copies", "gathered", "causal", "masked"] * len(RATIOS)
    assert all(row["rel_diff"] < 1e-5 for row in rows)


def test_without_the_compiled_kernel_torch_is_measured(monkeypatch):
    monkeypatch.setattr(sparse_attention, "find_row_kernel", lambda: FoundKernel(None, "none"))
    rows = rows_on("cpu")
    assert operators(rows) == ["heddle", "causal", "masked"] * len(RATIOS)
    assert all(row["rel_diff"] < 1e-5 for row in rows)


@pytest.mark.slow
def test_what_is_measured_on_a_gpu_alone_computes_the_same():
    pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")
    rows = rows_on("interpret")
    at = operators(rows).index("heddle, 16 decodes")
    decodes, tilings = rows[at : at + 2], rows[at + 2 :]
    assert operators(decodes) == ["heddle, 16 decodes", "torch, 16 decodes"]
    assert all(row["rel_diff"] < 1e-5 for row in rows[: at + 2])
    assert len(tilings) == 1 + len(TILINGS)


def test_a_machine_without_the_device_says_so():
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(InputError, match="finds no CUDA device"):
        sparse_attention.run(True, 0, device="cuda")
    with pytest.raises(InputError, match="use cpu or cuda"):
        sparse_attention.run(True, 0, device="tpu")
