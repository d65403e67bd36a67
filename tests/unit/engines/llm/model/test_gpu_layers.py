"""A GPU's layers compute what transformers' own do: in Triton's interpreter, or on a GPU."""

import pytest
import torch
from torch import nn

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.engines.llm.attention.choice import TRITON
from heddle.engines.llm.model.fused_types import FUSED_TYPES
from heddle.engines.llm.model.gpu_layers import (
    GpuAttention,
    GpuNorm,
    can_fuse_on_gpu,
    fuse_on_gpu,
)
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.reuse.gate import keys_can_be_rotated
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.fusion_oracle import FusionOracle
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model
from tests.helpers.triton_compiling import output_uninterpreted

pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")
TOLERANCE = 5e-6
PREFIX, QUESTION = prompt(11, 0), prompt(5, 4)
CHUNKS = [prompt(17, 1), prompt(9, 2)]
FUSED = [family for family in FAMILIES if tiny_model(family).config.model_type in FUSED_TYPES]


def fused_model(family):
    model = tiny_model(family)
    fuse_on_gpu(model)
    return model


def rel_diff(got, expected):
    return float((got - expected).abs().max() / expected.abs().max())


def ids(chunks):
    return [*PREFIX, *(token for chunk in chunks for token in chunk), *QUESTION]


def test_which_models_are_fused():
    for family in FAMILIES:
        assert can_fuse_on_gpu(tiny_model(family)) is (family in FUSED)
    model = tiny_model("llama")
    model.model.layers[0].mlp.act_fn = nn.GELU()
    assert not can_fuse_on_gpu(model)


def test_fusing_twice_changes_nothing():
    model = fused_model("qwen3")
    attention = model.model.layers[0].self_attn
    assert can_fuse_on_gpu(model)
    fuse_on_gpu(model)
    assert model.model.layers[0].self_attn is attention
    assert isinstance(attention, GpuAttention)


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e5])
def test_states_of_any_size_are_normed_as_by_the_library(size):
    norm = tiny_model("llama").model.norm
    states = size * torch.randn(3, norm.weight.numel(), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert rel_diff(GpuNorm(norm)(states), norm(states)) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("family", FUSED)
def test_answers_equal_the_plain_model(family):
    serving = FusedServing(fused_model(family), step_tokens=20, attention=TRITON)
    logits = serving.ask(segments(PREFIX, CHUNKS, QUESTION), KvReuse(), new_tokens=3)
    expected = FusionOracle(tiny_model(family)).run(ids(CHUNKS))[0]
    assert rel_diff(logits, expected[-1]) < TOLERANCE


@pytest.mark.slow
def test_reused_chunks_equal_the_oracle():
    """The question selects, which takes an attention without the rest of its layer."""
    serving = FusedServing(fused_model("qwen2"), attention=TRITON)
    for chunk in CHUNKS:
        serving.ask(segments(PREFIX, [chunk], prompt(3, 9)))
    chunks = CHUNKS[::-1]
    logits = serving.ask(segments(PREFIX, chunks, QUESTION), KvReuse(ReusePolicy.FUSIONRAG, 1.0))
    expected = FusionOracle(tiny_model("qwen2")).run(ids(chunks))[0]
    assert rel_diff(logits, expected[-1]) < TOLERANCE


def test_fused_keys_can_be_rotated():
    assert keys_can_be_rotated(TransformersWorker(fused_model("llama"), 64, attention=TRITON))


COMPILE = """
from heddle.engines.llm.model import gpu_layer_kernels as kernels
from tests.helpers.triton_compiling import compiled

HEADS = {"HEADS": 28, "KV_HEADS": 4, "HEAD_DIM": 128, "BLOCK": 64}
for capability in (80, 90):
    for is_normed in (False, True):
        types = {"slots": "*i64", "epsilon": "fp32"}
        compiled(kernels.store_tokens, capability, types, num_warps=1, IS_NORMED=is_normed, **HEADS)
    compiled(kernels.norm_rows, capability, {"epsilon": "fp32"}, SIZE=3584, BLOCK=4096)
    compiled(kernels.gate_rows, capability, {}, SIZE=18944, BLOCK=1024)
    print(capability)
"""


@pytest.mark.slow
def test_the_kernels_compile_for_gpus(tmp_path):
    """The sizes are those of a 7B, its heads with norms and without, in bfloat16."""
    assert output_uninterpreted(COMPILE, tmp_path).split() == ["80", "90"]
