"""Fused layers compute what transformers' own do, also over keys that were turned."""

import pytest
import torch

from heddle.core.instruction_sets import multiplies_bfloat16
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.engines.llm.model.fused_layers import (
    FusedAttention,
    FusedNorm,
    can_fuse,
    fuse_layers,
)
from heddle.engines.llm.model.fused_types import FUSED_TYPES
from heddle.engines.llm.model.packed_linear import pack_linears
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.reuse.gate import keys_can_be_rotated
from tests.helpers.fused_serving import FusedServing, segments
from tests.helpers.fusion_oracle import FusionOracle
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model

TOLERANCE = 5e-6
PREFIX, QUESTION = prompt(21, 0), prompt(9, 4)
CHUNKS = [prompt(37, 1), prompt(18, 2), prompt(50, 3)]
FUSED = [family for family in FAMILIES if tiny_model(family).config.model_type in FUSED_TYPES]


@pytest.fixture(scope="module", params=FUSED)
def models(request):
    """A model as transformers has it, and the same with fused and packed layers."""
    plain, fused = tiny_model(request.param), tiny_model(request.param)
    assert can_fuse(fused)
    fuse_layers(fused)
    pack_linears(fused)
    return plain, fused


def _rel_diff(got, expected):
    return float((got - expected).abs().max() / expected.abs().max())


def _ids(chunks):
    return [*PREFIX, *(token for chunk in chunks for token in chunk), *QUESTION]


def test_which_models_are_fused():
    assert {tiny_model(family).config.model_type for family in FUSED} == set(FUSED_TYPES)
    assert not any(can_fuse(tiny_model(family)) for family in FAMILIES if family not in FUSED)
    assert can_fuse(tiny_model("llama").to(torch.bfloat16)) is multiplies_bfloat16()


def test_fusing_twice_changes_nothing():
    model = tiny_model("qwen3")
    fuse_layers(model)
    attention = model.model.layers[0].self_attn
    assert can_fuse(model)
    fuse_layers(model)
    assert model.model.layers[0].self_attn is attention
    assert isinstance(attention, FusedAttention)


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e5])
def test_states_of_any_size_are_normed_as_by_the_library(size):
    norm = tiny_model("llama").model.norm
    states = size * torch.randn(3, norm.weight.numel(), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert _rel_diff(FusedNorm(norm)(states), norm(states)) < TOLERANCE


def test_full_attention_equals_the_plain_model(models):
    plain, fused = models
    serving = FusedServing(fused, step_tokens=50)
    logits = serving.ask(segments(PREFIX, CHUNKS, QUESTION), KvReuse(), new_tokens=4)
    expected = FusionOracle(plain).run(_ids(CHUNKS))[0]
    assert _rel_diff(logits, expected[-1]) < TOLERANCE


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_reused_chunks_equal_the_oracle(models, ratio):
    plain, fused = models
    serving = FusedServing(fused)
    for chunk in CHUNKS:
        serving.ask(segments(PREFIX, [chunk], prompt(3, 9)))
    chunks = [CHUNKS[2], CHUNKS[0], CHUNKS[1]]
    logits = serving.ask(segments(PREFIX, chunks, QUESTION), KvReuse(ReusePolicy.FUSIONRAG, ratio))

    oracle, stored, start = FusionOracle(plain), [], len(PREFIX)
    for chunk in chunks if ratio == 0.0 else ():
        stored.append((start, oracle.chunk_kv(PREFIX, chunk)))
        start += len(chunk)
    assert _rel_diff(logits, oracle.run(_ids(chunks), stored)[0][-1]) < TOLERANCE


def test_the_question_selects_what_it_selects_in_the_plain_model(models):
    answers = []
    for model in models:
        serving = FusedServing(model)
        for chunk in CHUNKS:
            serving.ask(segments(PREFIX, [chunk], prompt(3, 9)))
        reuse = KvReuse(ReusePolicy.FUSIONRAG, 0.3)
        answers.append(serving.ask(segments(PREFIX, CHUNKS[::-1], QUESTION), reuse))
    assert _rel_diff(*answers) < 2 * TOLERANCE


def test_fused_keys_can_be_rotated(models):
    assert keys_can_be_rotated(TransformersWorker(models[1], 64))
