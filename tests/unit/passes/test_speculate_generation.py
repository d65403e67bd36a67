"""A decode goes on behind a prompt ahead of its search, where the search outlasts the prompt."""

from dataclasses import replace

import pytest

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Load
from heddle.core.primitives import PrimitiveKind
from heddle.passes.cycle_view import CycleView, EngineView, Provisional
from heddle.passes.speculate_generation import SpeculateGeneration

COSTS = CostSnapshot("llm", 1, {"call": 0.01, "prefill_tokens": 1e-3, "decode_tokens": 0.01})
IDLE = EngineView("llm", frozenset({PrimitiveKind.PREFILLING}), 0, 0, Load(), COSTS, None, None)
LONG = Provisional(1, "answer.prefilling@0", "llm", 100, 0.9, 0.5, decode_tokens=8)


def edits(provisional, engine=IDLE):
    return SpeculateGeneration().apply(CycleView(0.0, (), {"llm": engine}, (provisional,)))


def test_the_gain_is_what_of_the_decode_fits_between_the_prompt_and_the_end_of_the_search():
    (edit,) = edits(LONG)
    assert edit.provisional is LONG
    assert edit.gain_s == pytest.approx(0.9 * 8 * 0.02 - 0.1 * 0.02 / 2)
    (edit,) = edits(replace(LONG, rest_s=0.08))
    assert edit.gain_s == pytest.approx(0.9 * (2 * 0.08 - 0.11) - 0.1 * 0.02 / 2)


@pytest.mark.parametrize(
    "changed", [{"rest_s": 0.05}, {"decode_tokens": 0}, {"probability": 0.0}, {"win_rate": 0.0}]
)
def test_nothing_is_written_where_nothing_is_gained(changed):
    assert edits(replace(LONG, **changed)) == ()


def test_tokens_that_may_be_written_for_nothing_are_charged_to_those_who_wait():
    (edit,) = edits(LONG, replace(IDLE, delay=2.0))
    own_s = 0.9 * 8 * 0.02 - 0.1 * 0.02 / 2
    assert edit.gain_s == pytest.approx(own_s - 0.1 * 8 * 0.02 * 2.0)
    assert edits(LONG, replace(IDLE, delay=20.0)) == ()


@pytest.mark.parametrize("changed", [{"tokens": 1_000}, {"costs": None}])
def test_an_engine_that_is_busy_or_not_known_writes_nothing(changed):
    assert edits(LONG, replace(IDLE, **changed)) == ()
