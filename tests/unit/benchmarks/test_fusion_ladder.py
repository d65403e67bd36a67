"""fusion-ladder: every rung answers the same prompts, with one part more."""

from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarks import fusion_ladder
from benchmarks.fusion_ladder import QUICK, RUNGS
from benchmarks.support.random_llama import Shape


def test_every_rung_is_climbed_at_every_batch(monkeypatch):
    tiny = Shape("tiny", 2, 32, 2, 64)
    sizes = replace(
        QUICK, shape=tiny, pool=4, chunks=2, chunk_tokens=16, batches=(1, 3), kv_bytes=1 << 24
    )
    monkeypatch.setattr(fusion_ladder, "QUICK", sizes)
    rows = fusion_ladder.run(quick=True, seed=0)["rows"]
    names = [rung.name for rung in RUNGS]
    assert [(row["batch"], row["rung"]) for row in rows] == [
        (batch, name) for batch in (1, 3) for name in names
    ]
    for row in rows:
        assert row["ttft_s"] > 0
        assert row["rung"] != "full" or row["x_full"] == 1


@pytest.mark.parametrize(("below", "above"), list(pairwise(RUNGS)))
def test_a_rung_differs_from_the_one_below_in_one_part(below, above):
    parts = ("reuse", "attention", "is_blocking")
    assert sum(getattr(above, part) != getattr(below, part) for part in parts) == 1
