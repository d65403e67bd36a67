"""Weights and KV in bfloat16, KV stored in bfloat16 and int8: near the same in float32."""

import copy

import pytest
import torch

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.engines.llm.model.fused_layers import can_fuse, fuse_layers
from heddle.engines.llm.model.packed_linear import pack_linears
from heddle.kernels.compiled_kernel import find_row_kernel
from heddle.kv.kv_encoding import KvEncoding
from tests.helpers.fused_serving import EVERYTHING, FusedServing, segments
from tests.helpers.stored_chunks import chunks_stored
from tests.helpers.three_chunks import (
    CHUNKS,
    PREFIX,
    QUESTION,
    ThreeChunks,
    full_logits,
    ids_of,
    rel_diff,
    reused_logits,
    served,
)
from tests.helpers.tiny_models import FAMILIES, tiny_model

TOLERANCE = 4e-2
PREFIX_TOLERANCE = 2e-2
REORDERED = [CHUNKS[i] for i in (2, 0, 1)]
ASKED = segments(PREFIX, REORDERED, QUESTION)


@pytest.fixture(
    scope="module",
    params=[(family, fuses) for family in FAMILIES for fuses in (False, True)],
    ids=lambda param: f"{param[0]}, fused" if param[1] else param[0],
)
def models(request):
    """A model in bfloat16, as it is and with fused and packed layers, and the same in float32."""
    family, fuses = request.param
    rounded = tiny_model(family).to(torch.bfloat16)
    exact = copy.deepcopy(rounded).to(torch.float32)
    if fuses:
        if not can_fuse(rounded):
            pytest.skip("no family that is fused, or the CPU is slow in bfloat16")
        fuse_layers(rounded)
        pack_linears(rounded)
    return rounded, exact


def test_full_attention_ratio_one_and_full_reuse_keep_to_bfloat16s_rounding(models):
    rounded, exact = models
    serving = served(rounded)
    full = full_logits(exact, ids_of(REORDERED))
    assert rel_diff(serving.ask(ASKED, KvReuse(ReusePolicy.FUSIONRAG, 1.0)), full) < TOLERANCE
    assert rel_diff(serving.ask(ASKED, EVERYTHING), reused_logits(exact, REORDERED)) < TOLERANCE
    assert rel_diff(serving.ask(ASKED, KvReuse()), full) < TOLERANCE


def test_chunks_without_a_prefix_keep_to_bfloat16s_rounding(models):
    asked = segments([], REORDERED, QUESTION)
    got, expected = (served(model, prefix=[]).ask(asked, EVERYTHING) for model in models)
    assert rel_diff(got, expected) < TOLERANCE


def test_the_first_chunk_right_behind_its_prefix_is_the_prefix_cache(models):
    rounded, exact = models
    got = served(rounded).ask(segments(PREFIX, CHUNKS[:1], QUESTION), EVERYTHING)
    assert rel_diff(got, full_logits(exact, ids_of(CHUNKS[:1]))) < PREFIX_TOLERANCE


def test_some_computed_anew_is_the_oracle_alone_in_a_batch_in_slices_and_preempted(models):
    """The tokens that EPIC computes anew are the same in any rounding."""
    rounded, exact = models
    reuse = KvReuse(ReusePolicy.EPIC, 0.3)
    alone = served(rounded).ask(ASKED, reuse)
    case = ThreeChunks(exact, REORDERED)
    first = [position for span in case.spans() for position in span[: int(0.3 * len(span))]]
    assert rel_diff(alone, case.logits(first)) < TOLERANCE
    together = served(rounded, step_tokens=64)
    small = served(rounded, pages=16, step_tokens=32)
    for serving, new_tokens in ((together, 1), (small, 30)):
        numbers = [serving.start(ASKED, reuse, new_tokens) for _ in range(2)]
        serving.drain()
        for number in numbers:
            assert rel_diff(serving.logits[number][0], alone) < TOLERANCE
    assert sum(small.preemptions[number] for number in numbers) > 0, "a weak test"


@pytest.mark.skipif(
    find_row_kernel(in_bfloat16=True).kernel is None, reason="no kernel for bfloat16 here"
)
def test_chunks_pages_are_shared_where_the_kernel_reads_them():
    model = tiny_model("llama").to(torch.bfloat16)
    fuse_layers(model)
    serving = served(model)
    serving.ask(ASKED, EVERYTHING)
    assert next(reversed(serving.prefilled.values())).fused.tokens_shared > 0


@pytest.mark.parametrize("encoding", [KvEncoding.BF16, KvEncoding.INT8])
def test_kv_stored_in_fewer_bits_changes_little(encoding):
    model = tiny_model("qwen3")
    with chunks_stored() as stored:
        serving = served(model, encoding=encoding)
    got = serving.ask(ASKED)
    assert 0 < rel_diff(got, reused_logits(model, REORDERED)) < TOLERANCE
    fused = next(reversed(serving.prefilled.values())).fused
    assert 0 < fused.stored_error == max(one.kv.error for one in stored) < TOLERANCE


def test_the_error_of_what_comes_from_disk_is_told_as_well(tmp_path):
    disk = {"directory": tmp_path, "disk_bytes_max": 1 << 28}
    model = tiny_model("qwen3")
    served(model, encoding=KvEncoding.INT8, **disk).engine.close()
    later = FusedServing(model, encoding=KvEncoding.BF16, **disk)
    number = later.start(ASKED)
    later.drain_loads([number])
    fused = later.prefilled[number].fused
    later.engine.close()
    assert fused.tokens_from_disk > 0
    assert fused.stored_error > 2**-9, "of int8: bf16 rounds by less"
