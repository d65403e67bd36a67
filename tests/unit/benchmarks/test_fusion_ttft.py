"""fusion-ttft: its cases fit into the memory they run in; a missing device is reported."""

from dataclasses import replace

import pytest
import torch

from benchmarks import fusion_ttft
from benchmarks.fusion_ttft import CHUNK_TOKENS, PLANS, QUICK
from benchmarks.support.random_llama import Shape
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
    rows = fusion_ttft.measured(plan, "cpu", ("float32",), seed=0)
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
    assert all(row["tokens_shared"] > 0 for row in rows if row["ratio"] == 0.0)
    aheads = 3 if "host" in tiers else 0
    assert [row["question"] for row in rows if row.get("asking_s", 0) > 0] == ["ahead"] * aheads
    headline = fusion_ttft.result(plan, "cpu", ("float32",), rows)["headline"]
    assert {name.split("_")[0] for name in headline} == {
        *(("x", "own", "share", "worst", "full", "tokens") if "host" in tiers else ()),
        *(("disk",) if "disk" in tiers else ()),
    }


def test_the_headline_is_of_the_first_rows_and_worst_of_all():
    plan = replace(QUICK["cpu"], lengths=(1024,), tiers=("host",))

    def rows(dtype, held, full_s):
        """Return rows of full attention by torch, by the engine in half that, and of reuse."""
        seconds = {"full": full_s, "full, own": full_s / 2, 0.0: 1.0, 0.15: 2.0}
        shared = {"tier": "host", "tokens": 1024, "dtype": dtype, "held": held}
        for ratio, taken_s in seconds.items():
            for question in ("alone", "ahead"):
                yield shared | {
                    "ratio": ratio,
                    "question": question,
                    "x_full": full_s / taken_s,
                    "x_own": full_s / 2 / taken_s,
                    "share_of_limit": 1.0,
                    "tokens_shared": 512 if dtype == "float32" else 256,
                }

    all_rows = [
        *rows("float32", "", 20.0),
        *rows("bfloat16", "", 6.0),
        *rows("float32", "avx2", 30.0),
    ]
    headline = fusion_ttft.result(plan, "cpu", ("float32", "bfloat16"), all_rows)["headline"]
    assert (headline["x_1k_r0"], headline["own_1k_r15"]) == (20.0, 5.0)
    assert (headline["worst_1k_r0"], headline["worst_1k_r15"]) == (6.0, 3.0)
    assert (headline["full_attention_x_torch"], headline["tokens_shared"]) == (0.5, 256)
