"""The step budget follows HedraRAG's eq. 1, and moves only when that pays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.frames import Load
from heddle.core.primitives import PrimitiveKind
from heddle.costs.substage import substage_gain_s
from heddle.passes.cycle_view import CycleView, EngineView, SetBudget
from heddle.passes.split_substages import REFIT_SHARE, SplitSubstages

SEARCH = frozenset({PrimitiveKind.SEARCHING})


def view(stage_s, budget_s=None, kinds=SEARCH, name="vector"):
    engine = EngineView(name, kinds, 1, 0, Load(), None, stage_s, budget_s)
    return CycleView(0.0, (), {name: engine})


@given(st.floats(1e-4, 10.0), st.floats(1e-5, 1e-2))
def test_the_budget_is_the_argmax_of_eq_1(stage_s, overhead_s):
    (edit,) = SplitSubstages(overhead_s).apply(view(stage_s))
    others = np.linspace(stage_s / 200, stage_s, 400)
    best = max(substage_gain_s(stage_s, overhead_s, budget_s) for budget_s in others)
    gain_s = substage_gain_s(stage_s, overhead_s, edit.budget_s)
    assert gain_s >= best - 1e-12
    assert edit.gain_s == max(0.0, gain_s)
    assert 0 < edit.budget_s <= stage_s


def test_nothing_is_asked_for_before_a_stage_was_measured():
    assert SplitSubstages().apply(view(None)) == ()
    assert SplitSubstages().apply(view(0.0)) == ()


def test_other_engines_are_left_alone():
    llm = frozenset({PrimitiveKind.PREFILLING, PrimitiveKind.DECODING})
    assert SplitSubstages().apply(view(1.0, kinds=llm)) == ()


@pytest.mark.parametrize("factor", [1 - 0.9 * REFIT_SHARE, 1.0, 1 + 0.9 * REFIT_SHARE])
def test_a_budget_that_is_near_enough_stays(factor):
    (edit,) = SplitSubstages().apply(view(0.1))
    assert SplitSubstages().apply(view(0.1, edit.budget_s / factor)) == ()


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_budget_that_is_far_off_moves(factor):
    (edit,) = SplitSubstages().apply(view(0.1))
    assert SplitSubstages().apply(view(0.1, edit.budget_s * factor)) == (edit,)


def test_each_search_engine_gets_its_own():
    engines = {**view(0.1, name="a").engines, **view(0.4, name="b").engines}
    edits = SplitSubstages().apply(CycleView(0.0, (), engines))
    assert all(isinstance(edit, SetBudget) for edit in edits)
    budgets = {edit.engine: edit.budget_s for edit in edits}
    assert budgets["b"] == pytest.approx(2 * budgets["a"])  # the square root of four times t
