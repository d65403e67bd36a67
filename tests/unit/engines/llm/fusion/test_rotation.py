"""Turned keys against transformers and rotations in fp64, for every kind of RoPE."""

import copy

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from heddle.engines.llm.model.fused_layers import fuse_layers
from heddle.engines.llm.model.worker import TransformersWorker
from heddle.engines.llm.step_batch import BatchRow, SlotLoad, StepBatch
from heddle.kv.rows import SlotRun
from tests.helpers.fused_serving import segments
from tests.helpers.ropes import DISTANCES, PAIRED, ROPES, angle_tolerance, roped_model
from tests.helpers.three_chunks import (
    CHUNKS,
    PREFIX,
    QUESTION,
    TOLERANCE,
    ids_of,
    rel_diff,
    served,
    spans_of,
)
from tests.helpers.tiny_models import prompt

REORDERED = [CHUNKS[i] for i in (2, 0, 1)]


@pytest.fixture(scope="module", params=ROPES)
def model(request):
    """A model of transformers, with transformers' own attention."""
    return roped_model(request.param)


def _turned(model, keys, tokens, *, are_pairs=False):
    """Turn keys by a distance in fp64, knowing only the frequencies and who pairs with whom.

    Shapes: keys and result [layers, kv_heads, n, head_dim].
    """
    angles = model.model.rotary_emb.inv_freq.double() * tokens
    cos, sin = angles.cos(), angles.sin()
    pairs, exact = len(angles), keys.double()
    if are_pairs or model.config.model_type == "glm4":
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    else:
        first, second = slice(0, pairs), slice(pairs, 2 * pairs)
    turned = exact.clone()
    turned[..., first] = exact[..., first] * cos - exact[..., second] * sin
    turned[..., second] = exact[..., second] * cos + exact[..., first] * sin
    return turned


@torch.inference_mode()
def _chunk_kv(model, prefix, chunk):
    cache = model(torch.tensor([[*prefix, *chunk]]), use_cache=True).past_key_values
    keys = torch.cat([layer.keys for layer in cache.layers])[:, :, len(prefix) :]
    return keys, torch.cat([layer.values for layer in cache.layers])[:, :, len(prefix) :]


@torch.inference_mode()
def test_full_reuse_equals_transformers_over_chunks_turned_in_fp64(model):
    """A prefix, each chunk right behind it, turned to its place; then the question alone."""
    logits = served(copy.deepcopy(model)).ask(segments(PREFIX, REORDERED, QUESTION))

    cache = DynamicCache(config=model.config)
    model(torch.tensor([PREFIX]), past_key_values=cache)
    for chunk, span in zip(REORDERED, spans_of(REORDERED), strict=True):
        keys, values = _chunk_kv(model, PREFIX, chunk)
        keys = _turned(model, keys, span.start - len(PREFIX)).float()
        for layer in range(len(keys)):
            cache.update(keys[layer][None], values[layer][None], layer)
    expected = model(torch.tensor([QUESTION]), past_key_values=cache).logits[0, -1]
    assert rel_diff(logits, expected) < 1e-4


@torch.inference_mode()
def test_without_a_prefix_full_reuse_equals_transformers_with_a_block_mask(model):
    """FusionRAG fig. 5: every chunk sees itself alone, the question sees everything."""
    serving = served(copy.deepcopy(model), prefix=())
    logits = serving.ask(segments((), REORDERED, QUESTION))

    ids = torch.tensor([ids_of(REORDERED, prefix=())])
    parts = [*REORDERED, QUESTION]
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    sees = np.tril((owner[:, None] == owner) | (owner[:, None] == len(REORDERED)))
    mask = torch.zeros(sees.shape).masked_fill(~torch.from_numpy(sees), float("-inf"))
    expected = model(ids, attention_mask=mask[None, None]).logits[0, -1]
    assert rel_diff(logits, expected) < TOLERANCE
    assert rel_diff(logits, model(ids).logits[0, -1]) > 1e-2, "a weak test"


@pytest.mark.parametrize("distance", DISTANCES)
def test_keys_turned_by_a_load_equal_keys_computed_at_that_place(model, distance):
    """And both equal the rotation in fp64. A chunk may move to the front as well."""
    _check_turned(copy.deepcopy(model), distance, angle_tolerance(distance))


@pytest.mark.parametrize("rope", PAIRED)
@pytest.mark.parametrize("distance", DISTANCES)
def test_keys_of_fused_layers_are_turned_as_the_library_s(rope, distance):
    """The reader's way: numbers that turn together lie side by side."""
    fused = roped_model(rope)
    fuse_layers(fused)
    _check_turned(fused, distance, angle_tolerance(distance), are_pairs=True)


def test_keys_in_bfloat16_are_turned_within_its_rounding(model):
    """Angles' cosines are rounded as well, at both places."""
    rounded = copy.deepcopy(model).to(torch.bfloat16)
    _check_turned(rounded, 3000, 2e-2)


def _check_turned(model, distance, tolerance, *, are_pairs=False):
    worker = TransformersWorker(model, slots=64)
    ids, slots = prompt(24, 5), np.arange(24)
    stored = _at(worker, ids, slots, 40)
    fresh = _at(worker, ids, slots, 40 + distance)
    worker.load(SlotLoad(slots, stored, 0, distance))
    turned = worker.export_kv(slots)
    exact = _turned(model, stored.keys, distance, are_pairs=are_pairs)
    # Only the first layer's keys are the same before they are turned: rounding can't change them.
    layers = slice(1) if model.dtype is torch.bfloat16 else slice(None)
    assert rel_diff(turned.keys[layers].double(), fresh.keys[layers].double()) < tolerance
    assert rel_diff(turned.keys.double(), exact) < tolerance
    assert torch.equal(turned.values, stored.values)
    if distance:
        assert rel_diff(stored.keys.double(), fresh.keys.double()) > 1e-1, "a weak test"


def _at(worker, ids, slots, start):
    """Compute tokens from a position on; return their KV."""
    count = len(ids)
    row = BatchRow(0, count, count, (SlotRun(0, count),))
    worker.run(StepBatch(np.asarray(ids), slots + start, slots, (row,)))
    return worker.export_kv(slots)
