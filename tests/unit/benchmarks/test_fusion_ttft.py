"""fusion-ttft: what it measures fits where it is to run, and it says where it can't."""

from dataclasses import replace

import pytest
import torch

from benchmarks import fusion_ttft
from benchmarks.fusion_ttft import CHUNK_TOKENS, PLANS, QUICK
from benchmarks.support.random_llama import Shape, random_llama
from heddle.core.errors import InputError


def test_a_machine_without_the_device_says_so():
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(InputError, match="no CUDA device"):
        fusion_ttft.run(True, 0, device="cuda")
    with pytest.raises(InputError, match="use one of cpu, cuda"):
        fusion_ttft.run(True, 0, device="tpu")


@pytest.mark.parametrize(
    ("plan", "dtype_bytes"),
    [(PLANS["cpu"], 4), (QUICK["cpu"], 4), (PLANS["cuda"], 2), (QUICK["cuda"], 2)],
)
def test_a_prompt_and_its_chunks_fit_into_both_memories(plan, dtype_bytes):
    for shape in plan.shapes:
        token_bytes = shape.stored_token_bytes * dtype_bytes // 2
        assert plan.context_tokens_max * token_bytes < plan.kv_bytes
        assert max(plan.lengths) * shape.stored_token_bytes < plan.chunk_kv_bytes


def test_the_gpu_s_model_has_the_shape_of_a_7b():
    [shape] = PLANS["cuda"].shapes
    assert (shape.layers, shape.hidden, shape.heads, shape.kv_heads) == (28, 3584, 28, 4)
    assert shape.intermediate == 18944
    assert round(max(PLANS["cuda"].lengths) / 1000) == 27


def test_a_tier_that_is_unknown_is_refused():
    with pytest.raises(InputError, match="use host or disk"):
        fusion_ttft.run(True, 0, tier="tape")


@pytest.mark.parametrize("tiers", [("host", "disk"), ("disk",), ("host",)])
def test_every_ratio_and_tier_is_measured(tiers):
    tiny = Shape("tiny", 2, 32, 2, 64)
    plan = replace(QUICK["cpu"], shapes=(tiny,), lengths=(2 * CHUNK_TOKENS,), repetitions=1)
    plan = replace(plan, kv_bytes=1 << 24, chunk_kv_bytes=1 << 24, tiers=tiers)
    model = random_llama(tiny, 0, plan.context_tokens_max)
    rows = fusion_ttft._measure(model, plan, tiny, plan.lengths[0], seed=0)
    measured = [(row["ratio"], row["tier"], row["question"]) for row in rows]
    ways = {
        ratio: ["alone", "ahead", "with_context"] if ratio else ["alone"] for ratio in plan.ratios
    }
    wanted = [("full", "host", "alone"), ("full, own", "host", "alone")]
    if "host" in tiers:
        wanted += [(ratio, "host", name) for ratio in plan.ratios for name in ways[ratio]]
    if "disk" in tiers:
        wanted += [(ratio, "disk", "alone") for ratio in plan.ratios]
    assert measured == wanted
    assert all(row["ttft_s"] > 0 for row in rows)
    aheads = 3 if "host" in tiers else 0
    assert [row["question"] for row in rows if row.get("asking_s", 0) > 0] == ["ahead"] * aheads
    headline = fusion_ttft._headline(rows, plan)
    assert {name.split("_")[0] for name in headline} == {
        *(("x", "own", "share") if "host" in tiers else ()),
        *(("disk",) if "disk" in tiers else ()),
    }
