"""sparse-attention: all operators give the same numbers, also those that are for a GPU."""

import numpy as np
import pytest
import torch

from benchmarks import sparse_attention
from benchmarks.sparse_attention import HEADLINE_RATIO, TILINGS, Shape
from heddle.core.errors import InputError
from heddle.engines.llm.attention.compiled_kernel import FoundKernel, find_row_kernel

SHAPE = Shape(4, 2, 64, torch.float32, 600)


@pytest.fixture
def bench():
    torch.manual_seed(0)
    return sparse_attention._Bench(SHAPE, torch.device("cpu"), 1, np.random.default_rng(0))


def operators(rows):
    return [row["operator"] for row in rows]


@pytest.mark.skipif(find_row_kernel().kernel is None, reason="the kernel can't be compiled here")
@pytest.mark.parametrize("ratio", [HEADLINE_RATIO, 1.0])
def test_every_operator_computes_the_same(bench, ratio):
    rows = bench.ratio(ratio)
    assert operators(rows) == ["heddle", "copies", "gathered", "causal", "masked"]
    assert all(row["rel_diff"] < 1e-5 for row in rows)


def test_without_the_compiled_kernel_torch_is_measured(bench, monkeypatch):
    monkeypatch.setattr(sparse_attention, "find_row_kernel", lambda: FoundKernel(None, "none"))
    rows = bench.ratio(HEADLINE_RATIO)
    assert operators(rows) == ["heddle", "causal", "masked"]
    assert all(row["rel_diff"] < 1e-5 for row in rows)


@pytest.mark.slow
def test_what_is_measured_on_a_gpu_alone_computes_the_same(bench):
    pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")
    decodes = bench.decodes()
    assert operators(decodes) == ["heddle, 16 decodes", "torch, 16 decodes"]
    assert all(row["rel_diff"] < 1e-5 for row in decodes)
    assert len(bench.tilings()) == 1 + len(TILINGS)


def test_a_machine_without_the_device_says_so():
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(InputError, match="finds no CUDA device"):
        sparse_attention.run(True, 0, device="cuda")
    with pytest.raises(InputError, match="use cpu or cuda"):
        sparse_attention.run(True, 0, device="tpu")
