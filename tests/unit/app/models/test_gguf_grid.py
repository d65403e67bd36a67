"""The grids of GGUF's tensors are what GGUF says, and make the same weights."""

import numpy as np
import pytest

from heddle.app.models.gguf_grid import GROUP, gguf_grid

gguf = pytest.importorskip("gguf")
KINDS = ("Q4_1", "Q8_0")


@pytest.mark.parametrize("kind", KINDS)
def test_a_grid_is_that_of_the_blocks(kind):
    generator = np.random.default_rng(0)
    weight = generator.normal(size=(24, 3 * GROUP)).astype(np.float32) * 0.05
    quantization = gguf.GGMLQuantizationType[kind]
    blocks = gguf.quantize(weight, quantization)
    codes, scales, lows = gguf_grid(blocks, kind)
    groups = codes.reshape(len(codes), -1, GROUP).astype(np.float32)
    values = groups * scales[..., None].astype(np.float32) + lows[..., None].astype(np.float32)
    expected = gguf.dequantize(blocks, quantization)
    np.testing.assert_allclose(values.reshape(expected.shape), expected, rtol=0, atol=1e-7)
    assert codes.max() <= (15 if kind == "Q4_1" else 255)


def test_other_kinds_have_none():
    assert gguf_grid(np.zeros((4, 22), np.uint8), "Q5_0") is None
