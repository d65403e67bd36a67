"""Products with weights on a grid are those of numpy, by each instruction set of this CPU."""

import platform
import subprocess

import numpy as np
import pytest
import torch

from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.engines.llm.model.grid import GROUP, round_to_grid
from heddle.engines.llm.quantized.panels import Panels
from heddle.engines.llm.quantized.quantized_linear import (
    WHOLE_ROWS_MAX,
    QuantizedEmbedding,
    QuantizedLinear,
)
from heddle.kernels import compiled_kernel

CODE_MOST = 127 * 128
OWN = ()
AVX2 = ("-march=haswell",)
PORTABLE = ("-march=x86-64", "-Wno-psabi")
FLAGS = {"this CPU's": OWN, "avx2": AVX2, "portable": PORTABLE}
COUNTS = [0, 1, 2, 3, 7, WHOLE_ROWS_MAX, WHOLE_ROWS_MAX + 1, 32, 33, 70, 96, 97, 200]
SIZES = [(64, 16), (96, 40), (576, 200), (1184, 33)]


def kernel_for(dtype, flags=OWN):
    if flags and platform.machine() != "x86_64":
        pytest.skip("these instruction sets are those of x86")
    if flags == AVX2 and not {"avx2", "fma", "f16c"} <= cpu_flags():
        pytest.skip("the CPU has no AVX2")
    in_bfloat16 = dtype is torch.bfloat16
    if in_bfloat16 and not multiplies_bfloat16():
        pytest.skip("the CPU is slow in bfloat16")
    try:
        kernel = compiled_kernel.load_kernel(in_bfloat16=in_bfloat16, flags=flags)
    except (OSError, AttributeError, subprocess.SubprocessError) as error:
        pytest.skip(f"no kernel here: {error}")
    return kernel.quantized


def cpu_flags():
    with open("/proc/cpuinfo") as file:
        return {flag for line in file if line.startswith("flags") for flag in line.split()}


def on_grid(rows):
    """Return rows as the kernel rounds them, 15 bits and a scale for each 32. Shapes: [n, in]."""
    groups = rows.reshape(len(rows), rows.shape[1] // GROUP, GROUP)
    most = np.abs(groups).max(axis=-1, keepdims=True)
    inverse = np.divide(np.float32(CODE_MOST), most, out=np.zeros_like(most), where=most > 0)
    codes = np.rint(groups.astype(np.float64) * inverse)
    return (codes * (most / np.float32(CODE_MOST))).reshape(rows.shape)


def product_of(rows, grid, bias, *, is_rounded):
    """Return the product, in float64."""
    rows = rows.float().numpy()
    left = on_grid(rows) if is_rounded else rows.astype(np.float64)
    groups = grid.codes.numpy().reshape(grid.outputs, -1, GROUP).astype(np.float64)
    scales, lows = (part.numpy().astype(np.float64)[..., None] for part in grid[1:])
    weight = (groups * scales + lows).reshape(grid.outputs, grid.inputs)
    return left @ weight.T + (0 if bias is None else bias.float().numpy())


def layer_of(inputs, outputs, dtype, flags, *, bias):
    torch.manual_seed(0)
    grid = round_to_grid(torch.randn(outputs, inputs) * 0.05, "w")
    biases = torch.randn(outputs).to(dtype) if bias else None
    return grid, biases, QuantizedLinear(Panels.of(grid), biases, kernel_for(dtype, flags))


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize(("inputs", "outputs"), SIZES)
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_float32_is_numpy_s_product_of_both_grids(flags, inputs, outputs, bias):
    grid, biases, layer = layer_of(inputs, outputs, torch.float32, flags, bias=bias)
    is_whole = kernel_for(torch.float32, flags).multiply_many is not None
    for count in COUNTS:
        rows = torch.randn(1, count, inputs) * torch.rand(count, 1)
        is_rounded = is_whole or count <= WHOLE_ROWS_MAX
        expected = product_of(rows[0], grid, biases, is_rounded=is_rounded)
        np.testing.assert_allclose(layer(rows)[0].numpy(), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("inputs", "outputs"), SIZES)
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_bfloat16_is_numpy_s_product_to_its_own_rounding(inputs, outputs, bias):
    grid, biases, layer = layer_of(inputs, outputs, torch.bfloat16, OWN, bias=bias)
    for count in COUNTS:
        rows = torch.randn(1, count, inputs).bfloat16()
        expected = product_of(rows[0], grid, biases, is_rounded=count <= WHOLE_ROWS_MAX)
        result = layer(rows)[0].float().numpy()
        np.testing.assert_allclose(result, expected, rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@torch.no_grad()
def test_what_is_not_finite_stays_in_its_own_row(flags):
    _, _, layer = layer_of(64, 40, torch.float32, flags, bias=False)
    for count in (4, WHOLE_ROWS_MAX + 4):
        rows = torch.randn(count, 64)
        rows[1, 40], rows[2, 3] = torch.nan, torch.inf
        finite = layer(rows).isfinite().all(dim=1).tolist()
        assert finite == [number not in (1, 2) for number in range(count)]


@pytest.mark.parametrize("inputs", [64, 576, 1184])
@torch.no_grad()
def test_a_row_has_the_same_bits_among_many_where_they_are_whole_numbers(inputs):
    _, _, layer = layer_of(inputs, 200, torch.float32, AVX2, bias=True)
    assert kernel_for(torch.float32, AVX2).multiply_many is not None
    rows = torch.randn(200, inputs)
    alone = torch.cat([layer(row) for row in rows.split(1)])
    for count in COUNTS[1:]:
        assert torch.equal(layer(rows[:count]), alone[:count])


@pytest.mark.parametrize("flags", [OWN, AVX2], ids=["this CPU's", "avx2"])
@pytest.mark.parametrize("count", [5, 97])
@pytest.mark.parametrize("threads", [1, 2, 4])
@torch.no_grad()
def test_the_number_of_threads_changes_no_bit(flags, count, threads):
    _, _, layer = layer_of(576, 200, torch.float32, flags, bias=True)
    rows, before = torch.randn(count, 576), torch.get_num_threads()
    expected = layer(rows)
    try:
        torch.set_num_threads(threads)
        assert torch.equal(layer(rows), expected)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_embedding_takes_rows_of_the_grid(dtype):
    torch.manual_seed(0)
    grid = round_to_grid(torch.randn(40, 64), "w")
    tokens = torch.tensor([[39, 0, 17, 17]])
    found = QuantizedEmbedding(Panels.of(grid), dtype)(tokens)
    assert torch.equal(found, grid.values()[tokens].to(dtype))
