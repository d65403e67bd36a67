"""priming: what is shown for raw and for primed KV, and that all of it is stored."""

from benchmarks.priming import _full_s, _row
from benchmarks.support.reusing_model import Prompts, stages_of
from heddle.core.kv_reuse import PrimedWith
from heddle.evals.question import given_passage
from tests.helpers.tiny_server import write_model

A, B, C = (given_passage(name, name, f"The text of {name}.") for name in "abc")
NEAR = {A: (B, C), B: (A,)}


def test_passages_are_primed_one_at_a_time_and_together(tmp_path):
    prompts = Prompts.of(str(write_model(tmp_path / "model")))
    full_s = _full_s(prompts, NEAR)
    for batch in (1, 10):
        row = _row(prompts, NEAR, PrimedWith.NEAREST, batch, full_s)
        assert (row["primed_with"], row["batch"]) == ("nearest", batch)
        assert row["chunk_s"] == row["raw_s"] + row["primed_s"] > 0
        assert row["x_full"] == full_s / row["chunk_s"]


def test_the_raw_kv_of_neighbours_comes_first_and_the_nearest_stands_next_to_the_passage():
    alone, primed = stages_of(NEAR)
    assert set(alone) == {(A,), (B,), (C,)}
    assert primed == [(C, B, A), (A, B)]
